package options

import (
	"fmt"
	"io"
	"strings"
)

// Program is a program of several commands, for completion and the manual page.
type Program struct {
	Name, About string
	Commands    []Subcommand // the options of the first one need no command
}

// Subcommand is a command of a Program.
type Subcommand struct {
	Name, About string
	Line        *Command // nil: it takes no arguments
}

// roff makes text a part of a line of a manual page.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// WriteMan prints the manual page.
func (p *Program) WriteMan(w io.Writer, version string) {
	fmt.Fprintf(w, ".TH %s 1 \"\" \"%s %s\"\n.SH NAME\n%[2]s \\- %[4]s\n", strings.ToUpper(p.Name), p.Name, version, p.About)
	for _, c := range p.Commands {
		if c.Line == nil {
			continue
		}
		fmt.Fprintf(w, ".SH \"%s\"\n", roff.Replace(c.Line.Name))
		writeVerbatim(w, c.Line.Intro)
		for _, list := range c.Line.groups() {
			fmt.Fprintf(w, ".SS \"%s\"\n", roff.Replace(list[0].Group))
			for _, o := range list {
				fmt.Fprintf(w, ".TP\n\\fB\\-\\-%s\\fR \\fI%s\\fR\n\\&%s\n", roff.Replace(o.Name), roff.Replace(o.Arg), roff.Replace(o.explained()))
			}
		}
		if c.Line.Outro != "" {
			fmt.Fprintln(w, ".PP")
			writeVerbatim(w, c.Line.Outro)
		}
	}
}

// writeVerbatim prints text whose lines stay as they are.
func writeVerbatim(w io.Writer, text string) {
	fmt.Fprintf(w, ".nf\n\\&%s\n.fi\n", strings.ReplaceAll(roff.Replace(strings.Trim(text, "\n")), "\n", "\n\\&"))
}
