package hub

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Git's blob names; large files have SHA-256
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// linkedEtag is the header with the sum of the file that a redirect leads to.
const linkedEtag = "X-Linked-Etag"

// sumName is an etag that is a sum: SHA-256, or of a Git blob.
var sumName = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// download is a file on its way into the cache.
type download struct {
	*pull
	file string // its name in the repository
	url  string // path at the hub
	etag string // sum of its bytes, and the name of its blob
	size int64

	part *os.File  // that becomes the blob
	sum  hash.Hash // of what it has
	have int64     // bytes
	most int64     // that it had so far
}

// get brings a file into the snapshot of the commit.
func (p *pull) get(ctx context.Context, file string) error {
	link := p.snapshot(file)
	if exists(link) {
		return nil // a commit's files never change
	}
	d := &download{pull: p, file: file, url: "/" + p.name.Repo + "/resolve/" + p.commit + "/" + file}
	if err := p.try(ctx, func() error { return d.head(ctx) }); err != nil {
		return err
	}
	unlock, err := p.lock(ctx, filepath.Join(p.cache, ".locks", filepath.Base(p.folder), d.etag+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if exists(link) {
		return nil // another process made it
	}
	blob := filepath.Join(p.folder, "blobs", d.etag)
	if err := errors.Join(makeDir(filepath.Dir(blob)), makeDir(filepath.Dir(link))); err != nil {
		return err
	}
	if !exists(blob) {
		if err := d.run(ctx, blob); err != nil {
			return err
		}
	}
	target, err := filepath.Rel(filepath.Dir(link), blob)
	os.Remove(link) // it led to a blob that was removed
	return errors.Join(err, os.Symlink(target, link))
}

// head asks for the file's sum and size.
func (d *download) head(ctx context.Context) error {
	res, err := d.ask(ctx, http.MethodHead, d.url, 0)
	if err != nil {
		return err
	}
	res.Body.Close()
	d.etag = strings.Trim(strings.TrimPrefix(cmp.Or(res.Header.Get(linkedEtag), res.Header.Get("ETag")), "W/"), `"`)
	d.size, err = strconv.ParseInt(cmp.Or(res.Header.Get("X-Linked-Size"), res.Header.Get("Content-Length")), 10, 64)
	if err != nil || d.size < 0 || !sumName.MatchString(d.etag) {
		return fmt.Errorf("%s names no checksum or size of the file; HF_ENDPOINT must be a hub's", d.endpoint.Redacted())
	}
	return nil
}

// run makes the blob. It continues what an earlier run began.
func (d *download) run(ctx context.Context, blob string) (err error) {
	if d.part, err = os.OpenFile(blob+".incomplete", os.O_RDWR|os.O_CREATE, 0o644); err != nil { //nolint:gosec // models are not secret
		return err
	}
	defer d.part.Close()
	d.sum = d.newSum()
	if d.have, err = io.Copy(d.sum, d.part); err != nil {
		return err
	}
	d.most = d.have
	for resumed := d.have > 0; ; resumed = false {
		if err := d.try(ctx, func() error { return d.more(ctx) }); err != nil {
			if d.have == 0 {
				return errors.Join(fmt.Errorf("%w; nothing was kept", err), os.Remove(d.part.Name()))
			}
			return fmt.Errorf("%w; %d of %d bytes were kept, and the next try goes on from there", err, d.have, d.size)
		}
		got := hex.EncodeToString(d.sum.Sum(nil))
		if got == d.etag && d.have == d.size {
			return errors.Join(d.part.Sync(), os.Rename(d.part.Name(), blob))
		}
		if err := d.restart(); err != nil {
			return err
		}
		if !resumed {
			return fmt.Errorf("its checksum is %s and must be %s; what arrived was deleted, so try again later", got, d.etag)
		}
		d.Log.Warn().Str("file", d.file).Msg("what an earlier download left is damaged; starting again")
	}
}

// newSum is the hash of the etag's kind.
func (d *download) newSum() hash.Hash {
	if len(d.etag) == 2*sha256.Size {
		return sha256.New()
	}
	sum := sha1.New() //nolint:gosec // see the import
	fmt.Fprintf(sum, "blob %d\x00", d.size)
	return sum
}

// restart forgets what the part has.
func (d *download) restart() error {
	d.sum, d.have = d.newSum(), 0
	_, err := d.part.Seek(0, io.SeekStart)
	return errors.Join(err, d.part.Truncate(0))
}

// more gets the rest of the file, or some of it and a *temporaryError.
func (d *download) more(ctx context.Context) error {
	d.Progress(d.file, d.have, d.size)
	if d.have >= d.size {
		return nil
	}
	if err := d.room(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := d.ask(ctx, http.MethodGet, d.url, d.have)
	if failure := new(temporaryError); errors.As(err, &failure) && failure.restart {
		err = cmp.Or(d.restart(), err)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if whole := res.StatusCode != http.StatusPartialContent; whole && res.ContentLength >= 0 && res.ContentLength < d.size {
		return &temporaryError{err: fmt.Errorf("%s answered with %d bytes where the file has %d, perhaps with a page of a proxy", res.Request.URL.Host, res.ContentLength, d.size)}
	} else if whole && d.have > 0 {
		if err := d.restart(); err != nil {
			return err
		}
	}
	stall := time.AfterFunc(d.stall, func() { cancel(fmt.Errorf("no byte came within %s", d.stall)) })
	defer stall.Stop()
	arrived := writer(func(n int) {
		stall.Reset(d.stall)
		d.have += int64(n)
		d.Progress(d.file, d.have, d.size)
	})
	_, err = io.Copy(io.MultiWriter(d.part, d.sum, arrived), io.LimitReader(res.Body, d.size-d.have))
	switch failure := new(fs.PathError); {
	case errors.As(err, &failure): // of the disk
		return cmp.Or(d.room(), err)
	case d.have < d.size:
		more := d.have > d.most // else the host sends the same again
		d.most = max(d.most, d.have)
		return &temporaryError{err: fmt.Errorf("the connection ended after %d of %d bytes: %w", d.have, d.size, cmp.Or(context.Cause(ctx), err, io.ErrUnexpectedEOF)), more: more}
	}
	return nil
}

// writer is called with the number of bytes of each write.
type writer func(n int)

func (w writer) Write(b []byte) (int, error) {
	w(len(b))
	return len(b), nil
}

// room checks that the rest fits on the disk.
func (d *download) room() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(d.cache, &disk); err != nil {
		return err
	}
	if free, need := int64(disk.Bavail)*disk.Bsize, d.size-d.have; free < need {
		return fmt.Errorf("%s has %.2f GB free, and the file needs %.2f GB more; free some, or set HF_HOME to a directory on another disk", d.cache, float64(free)/1e9, float64(need)/1e9)
	}
	return nil
}

// lock takes a lock file, as Python's library does. It waits while another process has it.
func (p *pull) lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // it holds nothing
	if err != nil {
		return nil, err
	}
	for waits := false; ; waits = true {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !waits {
			p.Log.Info().Err(err).Str("lock", path).Msg("another process gets the file; waiting for it")
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = p.sleep(ctx, lockPause)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s was not locked: %w", path, err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func makeDir(path string) error { return os.MkdirAll(path, 0o755) } //nolint:gosec // models are not secret
