/* What `pairlab lab` adds to JupyterLab: the workbench's cell is run when its page is opened, commands and cards of the
   launcher open it and make a new experiment, a panel whose kernel ended says so (widgets.css), and the status bar tells while something measures on
   the host, as it is the reason that the machine is busy. A container of module federation, written by hand as webpack
   would build one: JupyterLab gives it the modules that it shares (init), and takes the plugin from it (get). */
(() => {
  "use strict";
  const PATH = "workbench.ipynb", COMMAND = "pairlab:measure", NEW = "pairlab:new-experiment", ASKED_MS = 3000;
  let shared;
  const part = async name => {
    const [version] = Object.values(shared[name]);
    return (await version.get())();
  };

  /* The first field of its panel, once it is there; null where it does not come. */
  async function field(cells, seconds) {
    const find = () => cells.node.querySelector(".pairlab-panel select");
    for (let waited = 0; !find() && waited < 10 * seconds; waited++) await new Promise(go => setTimeout(go, 100));
    return find();
  }

  /* Runs its cell, unless a kernel of before still has the panel that is shown, which can take a while to come back. */
  async function run(notebook, NotebookActions, inUse) {
    await notebook.context.ready;
    await notebook.sessionContext.ready;
    const cells = notebook.content, shows = cells.widgets.some(cell => cell.model.outputs && cell.model.outputs.length);
    if (inUse && shows && await field(cells, 10)) return;
    await NotebookActions.runAll(cells, notebook.sessionContext);
    await cells.scrollToItem(0, "start");
    const first = await field(cells, 30);
    if (first && cells.node.contains(document.activeElement)) first.focus({preventScroll: true});
  }

  /* So that the style sheet can tell: the widgets themselves know of a kernel's restart only. */
  function watch(notebook) {
    const show = context => notebook.node.classList.toggle(
      "pairlab-kernel-gone", context.hasNoKernel || ["dead", "terminating"].includes(context.kernelDisplayStatus));
    notebook.sessionContext.statusChanged.connect(show);
    notebook.sessionContext.kernelChanged.connect(show);
  }

  /* An item of the status bar: who measures on this host, whether in this page or elsewhere. */
  function tell(bar, settings, Widget, ServerConnection) {
    const item = new Widget();
    item.addClass("jp-StatusBar-TextItem");
    item.addClass("pairlab-measuring");
    item.node.setAttribute("role", "status");
    const ask = async () => {
      if (document.hidden) return;
      try {
        const answer = await ServerConnection.makeRequest(`${settings.baseUrl}pairlab/measuring`, {}, settings);
        const {who} = answer.ok ? await answer.json() : {};
        const text = who ? "measuring" : "";
        if (item.node.textContent !== text) item.node.textContent = text;
        item.node.title = who ? `${who} is measuring on this host` : "";
      } catch { /* the server is gone, which JupyterLab says */ }
    };
    bar.registerStatusItem("pairlab:measuring", {item, align: "right", rank: 0});
    setInterval(ask, ASKED_MS);
    ask();
  }

  /* Asks for a name, has the notebook of an experiment made, and opens it. */
  async function newExperiment(app, {InputDialog, showErrorMessage}, ServerConnection) {
    const asked = await InputDialog.getText({title: "Name of the new experiment", placeholder: "my-experiment"});
    if (!asked.value) return;
    const settings = app.serviceManager.serverSettings, body = JSON.stringify({name: asked.value});
    const answer = await ServerConnection.makeRequest(`${settings.baseUrl}pairlab/experiments`, {method: "POST", body}, settings);
    const said = await answer.json();
    if (!answer.ok) return showErrorMessage("No experiment was made", said.message);
    await app.commands.execute("docmanager:open", {path: said.path, factory: "Notebook"});
  }

  async function extension() {
    const names = ["@jupyterlab/apputils", "@jupyterlab/launcher", "@jupyterlab/notebook", "@jupyterlab/statusbar",
      "@jupyterlab/services", "@lumino/widgets"];
    const [apputils, {ILauncher}, {INotebookTracker, NotebookActions}, {IStatusBar}, {ServerConnection}, {Widget}] =
      await Promise.all(names.map(part));
    const {ICommandPalette} = apputils;
    const plugin = {
      id: "pairlab:workbench",
      description: "Shows the workbench with its panel running.",
      autoStart: true,
      optional: [ICommandPalette, ILauncher, INotebookTracker, IStatusBar],
      activate: (app, palette, launcher, notebooks, bar) => {
        if (bar) tell(bar, app.serviceManager.serverSettings, Widget, ServerConnection);
        if (notebooks) notebooks.widgetAdded.connect((_, notebook) => watch(notebook));
        const {sessions} = app.serviceManager;
        const inUse = () => [...sessions.running()].some(each => each.path === PATH);
        app.commands.addCommand(COMMAND, {
          label: "Measure",
          caption: "Open pairlab's workbench, with its panel",
          execute: async () => {
            const before = inUse();
            await run(await app.commands.execute("docmanager:open", {path: PATH, factory: "Notebook"}), NotebookActions, before);
          },
        });
        app.commands.addCommand(NEW, {
          label: "New experiment",
          caption: "Make a notebook of an experiment of your own",
          execute: () => newExperiment(app, apputils, ServerConnection),
        });
        for (const command of [COMMAND, NEW]) {
          if (palette) palette.addItem({command, category: "pairlab"});
          if (launcher) launcher.add({command, category: "pairlab", rank: command === COMMAND ? 0 : 1});
        }
        const known = sessions.ready.then(inUse);
        app.restored.then(async () => {
          const shown = app.shell.currentWidget;
          if (shown && shown.context && shown.context.path === PATH) await run(shown, NotebookActions, await known);
        });
      },
    };
    return {__esModule: true, default: plugin};
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB.pairlab = {
    init: scope => { shared = scope; },
    get: async () => {
      const made = await extension();
      return () => made;
    },
  };
})();
