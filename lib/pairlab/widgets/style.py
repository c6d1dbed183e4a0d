"""Style of the widgets. Colours are JupyterLab's, so that its light and dark themes are both readable."""

import ipywidgets

CSS = """
body[data-jp-theme-light=false] .pairlab { --pairlab-lift: 35%; }
.pairlab { color: var(--jp-ui-font-color1, #222); max-width: 1180px; min-width: 0; gap: 10px; padding: 4px;
  box-sizing: border-box;
  container-type: inline-size; }
.pairlab .widget-html, .pairlab .widget-html-content { min-width: 0; max-width: 100%; line-height: 1.45; }
.pairlab .widget-html-content { width: 100%; }
.pairlab .jupyter-button:focus-visible, .pairlab input:focus-visible, .pairlab select:focus-visible,
.pairlab textarea:focus-visible
  { outline: 2px solid var(--jp-brand-color1, #1976d2) !important; outline-offset: 1px; }
.pairlab-fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(168px, 100%), 1fr));
  gap: 8px 14px; align-items: start; overflow: visible; }
.pairlab-field { min-width: 0; margin: 0; overflow: visible; }
.pairlab-field > .widget-inline-hbox { flex-direction: column; align-items: stretch; width: 100%; height: auto;
  margin: 0; }
.pairlab-field .widget-label { width: auto; text-align: left; height: 20px; line-height: 20px; overflow: visible;
  color: var(--jp-ui-font-color1, #222); font-size: 12px; font-weight: 600; }
.pairlab-field input[type=text], .pairlab-field select { width: 100%; box-sizing: border-box; flex: none;
  height: 28px; }
.pairlab-field .widget-checkbox { flex-direction: row; padding-top: 23px; }
.pairlab-field .widget-checkbox .widget-label-basic { width: auto; }
.pairlab-field .widget-checkbox .widget-label-basic span { font-size: 12px; font-weight: 600; }
.pairlab-invalid input[type=text], .pairlab-invalid select
  { border-color: var(--jp-error-color1, #d32f2f) !important; box-shadow: 0 0 0 1px var(--jp-error-color1, #d32f2f); }
.pairlab-field .widget-html { margin: 0; }
.pairlab-error { display: block; color: var(--jp-error-color1, #d32f2f); font-size: 12px; overflow-wrap: anywhere;
  margin-top: 3px; }
.pairlab-form > .pairlab-actions { margin: 8px 0; }
.pairlab-preview .widget-html-content { border-left: 3px solid var(--jp-brand-color1, #1976d2); padding: 6px 12px;
  background: var(--jp-layout-color2, #eee); border-radius: 2px; overflow-wrap: anywhere; box-sizing: border-box; }
.pairlab-actions { flex-flow: row wrap; gap: 6px 8px; align-items: center; overflow: visible; }
.pairlab-actions .jupyter-button { width: auto; min-width: 84px; padding: 0 14px; margin: 0; height: 30px;
  line-height: 30px; }
.pairlab .pairlab-inactive { opacity: var(--jp-widgets-disabled-opacity, 0.6); cursor: default; }
.pairlab-status { flex: 1 1 260px; min-width: 0; }
.pairlab-message { overflow-wrap: anywhere; }
.pairlab-message-ok { color: var(--jp-success-color0, #1b5e20); }
.pairlab-message-bad { color: var(--jp-error-color1, #d32f2f); }
.pairlab-message-warn
  { color: color-mix(in srgb, var(--jp-warn-color0, #e65100) 70%, var(--jp-ui-font-color0, #000)); }
.pairlab-phase { display: flex; flex-flow: row wrap; gap: 4px 14px; align-items: center; margin-bottom: 6px; }
.pairlab-phase-name { font-weight: 600; min-width: 170px; font-variant-numeric: tabular-nums; }
.pairlab-phase progress { width: 200px; accent-color: var(--jp-brand-color1, #1976d2); }
.pairlab-numbers { color: var(--jp-ui-font-color2, #555); font-variant-numeric: tabular-nums; }
.pairlab-heading { font-size: 15px; font-weight: 600; margin: 8px 0 0; }
.pairlab-tabs .widget-toggle-buttons { width: 100%; }
.pairlab-tabs .widget-inline-hbox, .pairlab-tabs { height: auto; }
.pairlab-tabs .jupyter-button { width: auto; min-width: 0; padding: 0 14px; margin: 0 4px 4px 0; }
.pairlab-figure { background: #fff; color: #111; border: 1px solid var(--jp-border-color2, #ddd); border-radius: 3px;
  padding: 10px; box-sizing: border-box; max-width: 100%; }
.pairlab-figure img { max-width: 100%; height: auto; display: block; }
.pairlab-history select[multiple] { width: 100%; font-family: var(--jp-code-font-family, monospace); font-size: 12px;
  min-height: 170px; white-space: pre; }
.pairlab-history .widget-select-multiple { width: 100%; height: auto;
  flex-direction: column; align-items: stretch; margin: 0; }
.pairlab-history .widget-select-multiple .widget-label { width: auto; text-align: left; }
.pairlab-reproduce textarea { width: 100%; box-sizing: border-box; font-family: var(--jp-code-font-family, monospace);
  font-size: 12px; color: var(--jp-ui-font-color1, #222); background: var(--jp-layout-color0, #fff);
  border: 1px solid var(--jp-border-color1, #bbb); padding: 6px; resize: vertical; }
.pairlab-reproduce label { display: block; margin-bottom: 6px; font-size: 12px; }
.pairlab-reproduce textarea { display: block; margin-top: 3px; }
.pairlab-words ul { margin: 4px 0 4px 18px; padding: 0; }
"""


def style_sheet() -> ipywidgets.HTML:
    """The style sheet; every widget that is shown by itself contains it."""
    return ipywidgets.HTML(f"<style>{CSS}</style>", layout=ipywidgets.Layout(display="none"))


def heading(words: str) -> ipywidgets.HTML:
    """A heading over a part of a widget. words: trusted, not escaped."""
    return ipywidgets.HTML(f"<h3 class='pairlab-heading'>{words}</h3>")


def frame(*children: ipywidgets.Widget, name: str) -> ipywidgets.VBox:
    """The outer box of a widget that is shown by itself; its CSS class is pairlab-NAME."""
    return with_classes(ipywidgets.VBox([style_sheet(), *children]), "pairlab", f"pairlab-{name}")


def with_classes(widget: ipywidgets.DOMWidget, *classes: str):
    """The widget, with these CSS classes."""
    for each in classes:
        widget.add_class(each)
    return widget


def show_inactive(button: ipywidgets.Button, inactive: bool) -> None:
    """Makes a button look disabled, or not. It stays enabled, as a disabled button would lose the keyboard focus."""
    (button.add_class if inactive else button.remove_class)("pairlab-inactive")
