// Examples that the default model decides well: a small household with robots.

const tool = (name, description, parameters) => ({ name, description, parameters });
const goTo = tool("go_to", "Drive to a room.", { room: { type: "string", enum: ["kitchen", "hall", "office", "garage"] } });
const pickUp = tool("pick_up", "Pick up an object in this room.", { object: { type: "string" } });
const placeOn = tool("place_on", "Put down what the robot holds.", { furniture: { type: "string" } });

export const presets = [
  {
    name: "One robot",
    instruction: "rover, bring the red cup from the table in the kitchen to the shelf in the hall.",
    tools: [goTo, pickUp, placeOn],
    robots: ["rover", "scout"],
    mode: "sampled",
  },
  {
    name: "Several robots",
    instruction: "rover, go to the kitchen, and scout, go to the garage.",
    tools: [goTo, pickUp, placeOn],
    robots: ["rover", "scout"],
    mode: "sampled",
  },
  {
    name: "Different answers",
    instruction: "scout, bring the book from the desk in the office to the table in the hall.",
    tools: [goTo, pickUp, placeOn],
    robots: ["rover", "scout"],
    mode: "distinct",
  },
];
