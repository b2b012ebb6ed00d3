package options

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Shells are those that [Program.WriteCompletion] knows.
var Shells = []string{"bash", "zsh", "fish"}

// WriteCompletion prints what makes a shell complete commands, options and their values.
func (p *Program) WriteCompletion(w io.Writer, shell string) error {
	switch shell {
	case "bash":
		p.writeBash(w)
	case "zsh":
		p.writeZsh(w)
	case "fish":
		p.writeFish(w)
	default:
		return fmt.Errorf("got %q, want %s", shell, strings.Join(Shells, ", "))
	}
	return nil
}

// values is what may follow the flag of an option.
type values uint8

const (
	nothing values = iota
	anything
	words
	files
)

// isFile reports whether a placeholder is that of a file or directory.
var isFile = regexp.MustCompile(`^(FILE|PATH|DIR)\b`).MatchString

func (o Option) values() values {
	switch {
	case o.Value.form == asBool:
		return nothing
	case isFile(o.Arg):
		return files
	case len(o.Value.words) > 0:
		return words
	}
	return anything
}

// about is the first sentence of the option's text.
func (o Option) about() string {
	text, _, _ := strings.Cut(o.Usage, ". ")
	return strings.TrimSuffix(text, ".")
}

// pages calls f for each command with arguments, with its options but those for developers.
func (p *Program) pages(f func(name string, line *Command, list []Option)) {
	for _, c := range p.Commands {
		if c.Line != nil {
			f(c.Name, c.Line, slices.DeleteFunc(slices.Clone(c.Line.Options), func(o Option) bool { return o.Group == "" }))
		}
	}
}

func (p *Program) names() (list []string) {
	for _, c := range p.Commands {
		list = append(list, c.Name)
	}
	return list
}

// writeBash prints a function that bash calls with the words in COMP_WORDS.
func (p *Program) writeBash(w io.Writer) {
	fmt.Fprintf(w, `# Completion of %[1]s for bash.
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=%[2]s words=
	# Of --option=value the shell makes three words.
	[[ $cur != = ]] || cur=
	[[ $prev != = ]] || prev=${COMP_WORDS[COMP_CWORD - 2]}
	case ${COMP_WORDS[1]} in
	%[3]s) ((COMP_CWORD == 1)) || command=${COMP_WORDS[1]} ;;
	esac
	case $command$prev in
`, p.Name, p.Commands[0].Name, strings.Join(p.names(), " | "))
	var other [files + 1][]string // patterns of options with these values
	var flags strings.Builder
	p.pages(func(name string, line *Command, list []Option) {
		fmt.Fprintf(&flags, "\t\t%s-) words=\"--help", name)
		for _, o := range list {
			fmt.Fprintf(&flags, " --%s", o.Name)
			if pattern := name + "--" + o.Name; o.values() == words {
				fmt.Fprintf(w, "\t%s) words=\"%s\" ;;\n", pattern, strings.Join(o.Value.words, " "))
			} else {
				other[o.values()] = append(other[o.values()], pattern)
			}
		}
		fmt.Fprint(&flags, "\" ;;\n")
		if len(line.Words) > 0 {
			fmt.Fprintf(&flags, "\t\t%s*) words=\"%s\" ;;\n", name, strings.Join(line.Words, " "))
		}
	})
	fmt.Fprintf(w, `	%s) return ;; # files
	%s)
		compopt +o default
		return
		;;
	*)
		case $command${cur:0:1} in
%s		esac
		((COMP_CWORD > 1)) || [[ $cur == -* ]] || words="%s"
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _%s %[5]s
`, strings.Join(other[files], " | "), strings.Join(other[anything], " | "), &flags, strings.Join(p.names(), " "), p.Name)
}

// writeZsh prints a function for zsh, which may be sourced or be a file of fpath.
func (p *Program) writeZsh(w io.Writer) {
	quote := strings.NewReplacer(`'`, `'\''`, `[`, `\[`, `]`, `\]`, `:`, `\:`)
	fmt.Fprintf(w, "#compdef %[1]s\ncompdef _%[1]s %[1]s\n\n_%[1]s() {\n\tlocal command=%[2]s\n\tlocal -a commands=(\n", p.Name, p.Commands[0].Name)
	for _, c := range p.Commands {
		fmt.Fprintf(w, "\t\t'%s:%s'\n", c.Name, quote.Replace(c.About))
	}
	fmt.Fprint(w, `	)
	if ((CURRENT == 2)) && [[ ${words[2]} != -* ]]; then
		_describe command commands
		_files
		return
	fi
	if [[ -n ${commands[(r)${words[2]}:*]} ]]; then
		command=${words[2]}
		shift words
		((CURRENT--))
	fi
	case $command in
`)
	p.pages(func(name string, line *Command, list []Option) {
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments '--help[print all options]'", name)
		for _, o := range list {
			again, spec := "", "["+quote.Replace(o.about())+"]"
			if o.Value.isList() {
				again = "*"
			}
			takes := [...]string{nothing: "", anything: " ", words: "(" + strings.Join(o.Value.words, " ") + ")", files: "_files"}[o.values()]
			if takes != "" {
				spec = "=" + spec + ":" + quote.Replace(o.Arg) + ":" + takes
			}
			fmt.Fprintf(w, " \\\n\t\t\t'%s--%s%s'", again, o.Name, spec)
		}
		rest := "_files"
		if len(line.Words) > 0 {
			rest = "(" + strings.Join(line.Words, " ") + ")"
		}
		fmt.Fprintf(w, " \\\n\t\t\t'*:argument:%s'\n\t\t;;\n", rest)
	})
	fmt.Fprintf(w, "\tesac\n}\n\n[[ ${funcstack[1]} != _%[1]s ]] || _%[1]s \"$@\"\n", p.Name)
}

// writeFish prints commands of fish, one for each command and option.
func (p *Program) writeFish(w io.Writer) {
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, c := range p.Commands {
		fmt.Fprintf(w, "complete -c %s -n __fish_use_subcommand -a %s -d '%s'\n", p.Name, c.Name, quote.Replace(c.About))
	}
	first := "__" + p.Name + "_" + p.Commands[0].Name
	fmt.Fprintf(w, "function %s\n\tnot __fish_seen_subcommand_from %s\nend\n", first, strings.Join(p.names()[1:], " "))
	p.pages(func(name string, line *Command, list []Option) {
		when := "__fish_seen_subcommand_from " + name
		if name == p.Commands[0].Name {
			when = first
		}
		add := func(rest string) { fmt.Fprintf(w, "complete -c %s -n '%s' %s\n", p.Name, when, rest) }
		add("-l help -d 'print all options'")
		for _, o := range list {
			takes := [...]string{nothing: "", anything: "-x ", files: "-r ", words: "-x -a '" + strings.Join(o.Value.words, " ") + "' "}[o.values()]
			add(fmt.Sprintf("-l %s %s-d '%s'", o.Name, takes, quote.Replace(o.about())))
		}
		if len(line.Words) > 0 {
			add("-x -a '" + strings.Join(line.Words, " ") + "'")
		}
	})
}
