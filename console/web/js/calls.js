// Composing tool calls from forms.

import { button, fill, h, icon, iconButton, uid } from "./dom.js";
import { field } from "./form.js";
import { isObject } from "./json.js";
import { place, slot } from "./problems.js";
import { holds, initial, read } from "./schema.js";

const manyTools = 8; // from so many on, a palette has a filter

// createCalls edits work.calls at the point that point() returns; usualRobots
// maps tools to the robots that they were used with. onchange is called after
// every change.
export function createCalls(work, point, usualRobots, onchange) {
  const element = h("div", { class: "calls" });
  const list = h("ol", { class: "call-list" });
  const palette = h("div", { class: "palette-box" });
  element.append(list, palette);

  function draw(focus) {
    const tools = new Map(point()?.tools.map((t) => [t.name, t]));
    fill(list, work.calls.map((call, i) => card(call, i, tools.get(call.name))));
    fill(palette, paletteView(point(), work.calls.length, add));
    if (focus === undefined) return;
    const shown = list.children[focus];
    const target = shown?.querySelector(".field input, .field textarea, .field select, .call-head button") ?? palette.querySelector("button, summary");
    target?.focus();
  }

  function add(tool) {
    const start = initial(read(tool.schema));
    work.calls.push({ name: tool.name, robot: initial(robotForm(point())) ?? usual(tool.name), arguments: isObject(start) ? start : {} });
    draw(work.calls.length - 1);
    onchange();
  }

  // usual is the robot that this tool was last used with, if it is there.
  function usual(name) {
    const robot = work.calls.findLast((c) => c.name === name)?.robot ?? usualRobots.get(name);
    return robot !== undefined && holds(robotForm(point()), robot) ? robot : undefined;
  }

  function move(from, to) {
    [work.calls[from], work.calls[to]] = [work.calls[to], work.calls[from]];
    draw(to);
    onchange();
  }

  function card(call, i, tool) {
    const form = tool ? read(tool.schema) : { kind: "any", expects: "object" };
    // The robot is chosen beside the arguments, so the group has no name of
    // its own: its fields stand in the card.
    const args = field(holds(form, call.arguments) ? form : { kind: "any", expects: "object" }, {
      name: "Arguments", path: ["tool_calls", i, "arguments"], value: call.arguments,
      onchange: (next) => { call.arguments = next ?? {}; onchange(); },
    });
    args.classList.add("bare");
    const robot = field(robotForm(point()), {
      name: "Robot", path: ["tool_calls", i, "target_robot_name"], value: call.robot,
      onchange: (next) => { call.robot = next; onchange(); },
    });
    robot.classList.add("field-robot");
    return h("li", { class: "call", dataset: { path: place(["tool_calls", i]), name: call.name } },
      h("div", { class: "call-head" },
        h("span", { class: "call-title" }, icon("tool"), h("span", { class: "call-name" }, call.name)),
        work.calls.length > 1 ? [
          iconButton("up", `Move ${call.name} up`, () => move(i, i - 1), { disabled: i === 0 }),
          iconButton("down", `Move ${call.name} down`, () => move(i, i + 1), { disabled: i === work.calls.length - 1 }),
        ] : null,
        iconButton("close", `Remove ${call.name}`, () => { work.calls.splice(i, 1); draw(Math.max(0, i - 1)); onchange(); })),
      tool?.description ? h("p", { class: "call-about" }, tool.description) : null,
      tool ? null : h("p", { class: "notice warn" }, `There is no tool ${call.name} at this point.`),
      slot(uid("p")), args, robot);
  }

  draw();
  return element;
}

// robotForm is the field of a call's robot.
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
  const listed = h("ul", { class: "palette" }, items);
  const filter = tools.length < manyTools ? null : h("input", {
    type: "search", class: "palette-filter", placeholder: "Find a tool", "aria-label": "Find a tool",
    oninput(event) {
      const words = event.target.value.toLowerCase();
      tools.forEach((tool, i) => { items[i].hidden = !`${tool.name} ${tool.description}`.toLowerCase().includes(words); });
    },
  });
  if (calls === 0) return [h("p", { class: "palette-title" }, "Which tool should the agent call?"), filter, listed];
  return h("details", { class: "fold" }, h("summary", null, "Add another call"), h("div", { class: "fold-body" }, filter, listed));
}
