package schema

// formats has an expression that matches all strings of each supported format. The check decides
// the rest: leap days and seconds, the length of a host's name.
var formats = map[string]string{
	"date":      `^` + date + `$`,
	"time":      `^` + clock + `$`,
	"date-time": `^` + date + `[Tt]` + clock + `$`,
	"duration":  `^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H([0-9]+M)?([0-9]+S)?|[0-9]+M([0-9]+S)?|[0-9]+S))?)$`,
	"uuid":      `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
	"ipv4":      `^(` + octet + `\.){3}` + octet + `$`,
	"ipv6":      `^[0-9a-fA-F:]*:[0-9a-fA-F:.]*$`,
	"hostname":  `^` + label + `(\.` + label + `)*\.?$`,
	"email":     "^([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*|\"[^\"\\\\]*\")@(" + label + `(\.` + label + `)*\.?|\[[0-9a-zA-Z:.]+\])$`,
}

const (
	date  = `[0-9]{4}-(0[1-9]-(0[1-9]|[12][0-9]|3[01])|1[0-2]-(0[1-9]|[12][0-9]|3[01]))`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	octet = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	label = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`
)
