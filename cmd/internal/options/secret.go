package options

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// SecretFile is the path of a file that nobody else should read.
func SecretFile(p *string) Value {
	v := Text(p)
	v.secret = true
	return v
}

// ExposedSecrets are warnings about the secret files that other users of the machine can read, one
// sentence each.
func (c *Command) ExposedSecrets() (warnings []string) {
	for _, o := range c.Options {
		path := o.Value.String()
		if !o.Value.secret || path == "" {
			continue
		}
		// A file that cannot be read is an error elsewhere.
		if info, err := os.Stat(path); err == nil && exposed(info) {
			warnings = append(warnings, fmt.Sprintf("--%s: other users of this machine can read %s (mode %04o); run: chmod 600 %s", o.Name, path, info.Mode().Perm(), path))
		}
	}
	return warnings
}

// exposed reports whether others than this process's user may use a file. The group of a file of
// another owner is what lets this process read it, as in a pod with a volume of secrets.
func exposed(info fs.FileInfo) bool {
	mode := info.Mode()
	owner, ok := info.Sys().(*syscall.Stat_t)
	own := ok && int(owner.Uid) == os.Geteuid()
	return mode.IsRegular() && (mode&0o007 != 0 || own && mode&0o070 != 0)
}
