// Tool calls, composed in forms.

import { button, fill, h, icon, iconButton, uid } from "./dom.js";
import { field } from "./form.js";
import { isObject } from "../json.js";
import { place, slot } from "./problems.js";
import { holds, initial, read } from "./schema.js";

const manyTools = 20; // above, the list has a filter

// Calls edits work.calls at the point that point() returns. usualRobots maps tools to the robots that
// they were last used with. onchange is called after every change.
export class Calls {
  #options;
  #list = h("ol", { class: "call-list" });
  #palette = h("div", { class: "palette-box" });
  element = h("div", { class: "calls" }, this.#list, this.#palette);

  constructor(options) {
    this.#options = options;
    this.#draw();
  }

  // draw shows all calls. focus is the index of the call that gets the focus.
  #draw(focus) {
    const point = this.#options.point();
    const tools = new Map(point?.tools.map((t) => [t.name, t]));
    fill(this.#list, this.#options.work.calls.map((call, i) => this.#card(call, i, tools.get(call.name))));
    fill(this.#palette, paletteView(point, this.#options.work.calls.length, (tool) => this.#add(tool)));
    if (focus === undefined) return;
    const card = this.#list.children[focus];
    const target = card?.querySelector(".field :is(input, textarea, select)") ?? (card ?? this.#palette).querySelector("button, summary");
    target?.focus();
  }

  #add(tool) {
    const start = initial(read(tool.schema));
    this.#options.work.calls.push({
      name: tool.name,
      robot: initial(robotForm(this.#options.point())) ?? this.#usualRobot(tool.name),
      arguments: isObject(start) ? start : {},
    });
    this.#draw(this.#options.work.calls.length - 1);
    this.#options.onchange();
  }

  // usualRobot is the robot that this tool was last used with, if it is known at the point.
  #usualRobot(name) {
    const robot = this.#options.work.calls.findLast((c) => c.name === name)?.robot ?? this.#options.usualRobots.get(name);
    return robot !== undefined && holds(robotForm(this.#options.point()), robot) ? robot : undefined;
  }

  #remove(i) {
    this.#options.work.calls.splice(i, 1);
    this.#draw(Math.max(0, i - 1));
    this.#options.onchange();
  }

  #card(call, i, tool) {
    return h("li", { class: "call", dataset: { path: place(["tool_calls", i]), name: call.name } },
      this.#cardHead(call, i),
      tool?.description ? h("p", { class: "call-about" }, tool.description) : null,
      tool ? null : h("p", { class: "notice warn" }, `There is no tool ${call.name} at this point.`),
      slot(uid("p")), this.#argumentFields(call, i, tool), this.#robotField(call, i));
  }

  #cardHead(call, i) {
    return h("div", { class: "call-head" },
      h("span", { class: "call-title" }, icon("tool"), h("span", { class: "call-name" }, call.name)),
      iconButton("close", `Remove ${call.name}`, () => this.#remove(i)));
  }

  // argumentFields is a group without a name: the robot is chosen beside the arguments.
  #argumentFields(call, i, tool) {
    const any = { kind: "any", expects: "object" };
    const form = tool ? read(tool.schema) : any;
    const group = field(holds(form, call.arguments) ? form : any, {
      name: "Arguments", path: ["tool_calls", i, "arguments"], value: call.arguments,
      onchange: (next) => { call.arguments = next ?? {}; this.#options.onchange(); },
    });
    group.classList.add("bare");
    return group;
  }

  #robotField(call, i) {
    const robot = field(robotForm(this.#options.point()), {
      name: "Robot", path: ["tool_calls", i, "target_robot_name"], value: call.robot,
      onchange: (next) => { call.robot = next; this.#options.onchange(); },
    });
    robot.classList.add("field-robot");
    return robot;
  }
}

// robotForm describes the field of a call's robot.
function robotForm(point) {
  const robots = point?.robots ?? [];
  return read(robots.length > 0 ? { enum: robots } : { type: "string", maxLength: 100 });
}

function paletteView(point, calls, add) {
  if (point?.tools_error) return h("p", { class: "notice warn" }, `The tools of this point cannot be used: ${point.tools_error}`);
  const tools = point?.tools ?? [];
  if (tools.length === 0) return h("p", { class: "muted" }, "The agent has no tools at this point. It can only reply.");
  const items = tools.map((tool) => h("li", null, button({ class: "palette-tool", onclick: () => add(tool) },
    h("span", { class: "call-name" }, tool.name),
    tool.description ? h("span", { class: "palette-about" }, tool.description) : null)));
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the tools", oninput() {
    for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(filter.value.toLowerCase());
  } });
  const listed = h("ul", { class: "palette" }, items.length > manyTools ? h("li", null, filter) : null, items);
  if (calls === 0) return [h("p", { class: "palette-title" }, "Which tool should the agent call?"), listed];
  return h("details", { class: "fold" }, h("summary", null, "Add another call"), h("div", { class: "fold-body" }, listed));
}
