package household

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// ToolNames selects the tool names of an episode.
type ToolNames int

// Kinds of tool names: names of training, and names that no training has.
const (
	Known ToolNames = iota
	Unseen
)

// toolWording is how a tool may be called and described: names of training, names
// that are unseen there, and descriptions. Two operations that are merged in one
// tool have their own wording.
type toolWording struct {
	names, unseen, descriptions []string
}

// Kinds of tools: of one operation, of a half of one, and of two that are merged.
const (
	toolGo = iota
	toolPick
	toolPut
	toolOpen
	toolClose
	toolDoor // opens and closes
	toolSwitch
	toolOn
	toolOff
	toolSet
	toolLook
	toolKinds
)

var toolWordings = [toolKinds]toolWording{
	toolGo: {
		[]string{"go_to", "move_to", "navigate", "drive_to", "goto_room", "go", "change_room", "travel"},
		[]string{"walk_to", "head_to", "enter_room", "relocate"},
		[]string{"Go to a room.", "Drive to a room.", "Move the robot into another room.", "Enter a room and look around.", "Walk to a room."},
	},
	toolPick: {
		[]string{"pick_up", "pick", "grasp", "take", "grab", "lift", "pick_object", "take_object"},
		[]string{"fetch", "collect", "seize", "get_item"},
		[]string{"Pick up an object.", "Take a thing that is in this room.", "Grasp an object.", "Take something into the hand.", "Lift a thing up."},
	},
	toolPut: {
		[]string{"put_down", "place", "put", "drop_at", "release", "put_object", "set_down", "lay_down"},
		[]string{"deposit", "leave_at", "stow", "unload"},
		[]string{"Put the held object somewhere.", "Put down what the robot holds.", "Place the object on or in something.", "Lay the held thing down at a place."},
	},
	toolOpen: {
		[]string{"open", "open_container", "open_it", "open_up", "do_open"},
		[]string{"unclose", "open_lid"},
		[]string{"Open a container.", "Open something.", "Open a door or lid.", "Make a closed container open."},
	},
	toolClose: {
		[]string{"close", "shut", "close_container", "close_it", "do_close"},
		[]string{"close_lid", "shut_tight"},
		[]string{"Close a container.", "Close something.", "Shut a door or lid.", "Make an open container closed."},
	},
	toolDoor: {
		[]string{"set_door", "open_close", "door", "operate_container", "set_open"},
		[]string{"move_lid", "container_state"},
		[]string{"Open or close a container.", "Open something or shut it.", "Open or shut a door or lid."},
	},
	toolSwitch: {
		[]string{"switch", "set_power", "toggle", "power", "switch_device", "turn"},
		[]string{"flip_switch", "control_power"},
		[]string{"Switch a device on or off.", "Turn a device on or off.", "Give a device power or take it away."},
	},
	toolOn: {
		[]string{"switch_on", "turn_on", "power_on", "start", "enable"},
		[]string{"activate", "light_up"},
		[]string{"Switch a device on.", "Turn a device on.", "Start a device."},
	},
	toolOff: {
		[]string{"switch_off", "turn_off", "power_off", "stop", "disable"},
		[]string{"deactivate", "kill_power"},
		[]string{"Switch a device off.", "Turn a device off.", "Stop a device."},
	},
	toolSet: {
		[]string{"set_level", "adjust", "set_value", "set_device", "set_number", "regulate"},
		[]string{"tune", "dial_in"},
		[]string{"Set a device to a number.", "Adjust the level of a device.", "Set the value of a device."},
	},
	toolLook: {
		[]string{"look_around", "look", "observe", "scan_room", "inspect", "see"},
		[]string{"survey", "view_room"},
		[]string{"Look around in this room.", "See what is in the room.", "List what the robot sees."},
	},
}

// mixedName joins the beginning of one training name with the end of another, to a new
// name. Toolboxes then have names that share words. Otherwise a model completes a name
// with the word that follows in any other tool.
func mixedName(r *rand.Rand) string {
	for {
		first, _, _ := strings.Cut(knownName(r), "_")
		_, last, ok := strings.Cut(knownName(r), "_")
		if name := first + "_" + last; ok && !isName(name) {
			return name
		}
	}
}

func knownName(r *rand.Rand) string { return oneOf(r, toolWordings[r.IntN(toolKinds)].names) }

// isName reports whether a kind of tools has a name, of training or not.
func isName(name string) bool {
	return slices.ContainsFunc(toolWordings[:], func(w toolWording) bool {
		return slices.Contains(w.names, name) || slices.Contains(w.unseen, name)
	})
}

// distractors are tools that no task needs.
var distractors = []struct{ name, description, parameter string }{
	{"take_photo", "Take a photo.", ""}, {"play_sound", "Play a sound.", "sound"}, {"charge", "Charge the battery.", ""},
	{"wait", "Wait for some seconds.", "seconds"}, {"sing", "Sing a song.", "song"}, {"self_test", "Test all motors.", ""},
	{"send_mail", "Send a mail.", "text"}, {"wave", "Wave a hand.", ""}, {"weather", "Tell the weather.", "city"},
}

// parameterWords are names and descriptions of the parameters of a role.
var parameterWords = [roles]struct{ names, descriptions []string }{
	roleRoom:   {[]string{"room", "to", "destination", "where", "location", "target"}, []string{"The room.", "Where to go.", "Name of the room."}},
	roleThing:  {[]string{"object", "item", "thing", "what", "object_name", "target"}, []string{"The object.", "Name of the thing.", "What to take."}},
	rolePlace:  {[]string{"place", "on", "where", "at", "surface", "spot"}, []string{"Where to put it.", "The place.", "Surface or container."}},
	roleBox:    {[]string{"container", "what", "target", "name", "thing"}, []string{"The container.", "What to open or close.", "Its name."}},
	roleDevice: {[]string{"device", "name", "what", "appliance", "target"}, []string{"The device.", "Name of the device.", "Which device."}},
	roleOn:     {[]string{"on", "power", "enabled", "state", "active"}, []string{"On or off.", "The new state.", "Whether it is on."}},
	roleOpen:   {[]string{"open", "opened", "state", "wide"}, []string{"Open or closed.", "The new state.", "Whether it is open."}},
	roleNumber: {[]string{"value", "level", "number", "to", "amount"}, []string{"The number.", "Degrees or percent.", "The new value."}},
}
