// Package datadir owns the folder in which a control plane keeps its state.
//
// A data directory belongs to one process at a time, is written in a format
// that has a number, and needs room on its disk. Open checks the three before
// anything is written, so that a mistake costs a one-line error and no data.
// Convert makes an older format one of this program's.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

const (
	// Format is the number of the layout that this program writes. Raise it
	// when an older program could no longer read what a newer one wrote. Since 2, the
	// store may have values that are encrypted.
	Format = 2

	// MinFreeBytes is the room that a control plane needs on the data
	// directory's disk to start: etcd preallocates 64 MB for its log, and
	// keeps a second segment ready.
	MinFreeBytes = 192 << 20

	formatFile = "format.json"
	lockFile   = "lock"
)

// Dir is an open data directory. Close gives it back.
type Dir struct {
	path    string
	lock    *os.File
	program string
	older   int // the format of an older program that it has, or 0
}

// format is what formatFile holds.
type format struct {
	Format    int    `json:"format"`
	WrittenBy string `json:"writtenBy"`
}

// Open takes the folder at path for this process, making it when it is not
// there. program names the program and its version, for the message that a
// later, older program prints.
//
// It fails, having written nothing, when another process holds the folder,
// when a newer program wrote it, or when its disk is nearly full.
func Open(path, program string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", path, err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("data directory %q is a file: name a folder with --data-dir", path)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory %q: %w: choose a folder that you can write to with --data-dir", path, unwrapPath(err))
	}
	if err := Private(abs, path); err != nil {
		return nil, err
	}
	lock, err := takeLock(abs, path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: abs, lock: lock, program: program}
	if err := d.check(path); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Private fails when others than this process's user and root can change what is
// in the folder dir: a user who can replace a key or a
// kubeconfig has all rights that it gives. given is what the user calls it.
//
// Where dir is a symbolic link, the folder that it leads to counts, and the link
// has to lie where nobody else can change it either.
func Private(dir, given string) error {
	link, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", given, unwrapPath(err))
	}
	if link.Mode()&os.ModeSymlink != 0 && !trusted(link) {
		return fmt.Errorf("data directory %q is a symbolic link of another user, who can lead it elsewhere: name the folder itself with --data-dir", given)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", given, unwrapPath(err))
	}
	if !trusted(info) {
		return fmt.Errorf("data directory %q belongs to another user, who can change the keys in it: run as that user, or make it yours with `chown %d %s`", given, os.Geteuid(), given)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("data directory %q can be written to by others (mode %04o), who can change the keys in it: take that away with `chmod 700 %s`, or, where it is a volume that a pod shares with a group, name a new folder in it", given, info.Mode().Perm(), given)
	}
	return nil
}

// trusted reports whether a file belongs to this process's user or to root.
func trusted(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
}

func (d *Dir) check(given string) error {
	found, err := readFormat(d.path)
	if err != nil {
		return fmt.Errorf("data directory %q: %w", given, err)
	}
	if found != nil && found.Format > Format {
		return fmt.Errorf("data directory %q was written by %s in format %d, and this program reads formats up to %d: run %s or newer on it, or choose another --data-dir",
			given, found.WrittenBy, found.Format, Format, found.WrittenBy)
	}
	free, err := freeBytes(d.path)
	if err != nil {
		return fmt.Errorf("data directory %q: cannot find out how much room its disk has: %w", given, err)
	}
	if free < MinFreeBytes {
		return fmt.Errorf("data directory %q: its disk has %d MiB left and at least %d MiB are needed: free some room, or choose another --data-dir",
			given, free>>20, uint64(MinFreeBytes)>>20)
	}
	if found != nil && found.Format < Format {
		d.older = found.Format
		return nil
	}
	if found == nil || *found != (format{Format: Format, WrittenBy: d.program}) {
		return d.writeFormat()
	}
	return nil
}

// Convert makes a folder that an older program has written one of this program's format. What
// it has is copied before, to a folder in it that the older program can go on from; Convert
// returns that, or "" where there was nothing to do. It changes nothing but the number of the
// format, so what is copied is always what the older program has written.
func (d *Dir) Convert() (before string, err error) {
	if d.older == 0 {
		return "", nil
	}
	before = d.Path(fmt.Sprintf("before-format-%d", Format))
	if err := d.copyTo(before); err != nil {
		return "", fmt.Errorf("copy what is in the data directory before it is converted: %w", err)
	}
	if err := d.writeFormat(); err != nil {
		return "", err
	}
	d.older = 0
	return before, nil
}

// copied is what a program needs to go on: the rest is made anew, or not read by it.
var copied = []string{"etcd", "pki", formatFile, "admin.kubeconfig"}

// copyTo copies what a program needs, whole or not at all.
func (d *Dir) copyTo(before string) error {
	var size uint64
	if err := d.eachCopied(func(_ string, info fs.FileInfo) error {
		size += uint64(info.Size())
		return nil
	}); err != nil {
		return err
	}
	free, err := freeBytes(d.path)
	if err != nil {
		return err
	}
	if free < size+MinFreeBytes {
		return fmt.Errorf("its disk has %d MiB left and %d MiB are needed: free some room",
			free>>20, (size+MinFreeBytes)>>20)
	}
	unfinished := d.Path(".before-format")
	if err := os.RemoveAll(unfinished); err != nil { // of a start that was killed
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := d.eachCopied(func(name string, info fs.FileInfo) error {
		to := filepath.Join(unfinished, name)
		if info.IsDir() {
			return os.Mkdir(to, 0o700)
		}
		return copyFile(d.Path(name), to, info.Mode().Perm())
	}); err != nil {
		return err
	}
	syscall.Sync()                               // the copy is on the disk before anything of the original is changed
	if err := os.RemoveAll(before); err != nil { // of an earlier conversion
		return err
	}
	return os.Rename(unfinished, before)
}

// eachCopied calls do for each file and folder that is copied.
func (d *Dir) eachCopied(do func(name string, info fs.FileInfo) error) error {
	for _, name := range copied {
		err := filepath.WalkDir(d.Path(name), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
				return err
			}
			name, err := filepath.Rel(d.path, path)
			if err != nil {
				return err
			}
			return do(name, info)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// Path is the folder's absolute path, joined with elem.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Close lets another process take the folder.
func (d *Dir) Close() {
	// The lock file stays: removing it would let two processes lock two files
	// of the same name. Its content is emptied, so that it names nobody.
	_ = d.lock.Truncate(0)
	_ = d.lock.Close()
}

// Owner says which process holds the data directory at path, 0 for none.
func Owner(path string) int {
	f, err := os.Open(filepath.Join(path, lockFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return 0 // the kernel dropped the lock with its process, whatever the file says
	}
	return lockPID(filepath.Join(path, lockFile))
}

func takeLock(abs, given string) (*os.File, error) {
	name := filepath.Join(abs, lockFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the data directory %q: %w: choose a folder that you can write to with --data-dir", given, unwrapPath(err))
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			holder := "another process"
			if pid := lockPID(name); pid > 0 {
				holder = fmt.Sprintf("process %d", pid)
			}
			return nil, fmt.Errorf("data directory %q is in use by %s: stop that process, or choose another --data-dir", given, holder)
		}
		return nil, fmt.Errorf("cannot lock the data directory %q: %w", given, err)
	}
	// Best effort: the number is for people, the lock itself is the kernel's.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

func lockPID(name string) int {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

func readFormat(dir string) (*format, error) {
	b, err := os.ReadFile(filepath.Join(dir, formatFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f format
	if err := json.Unmarshal(b, &f); err != nil || f.Format < 1 {
		return nil, fmt.Errorf("%s does not say a format: it is not a muster data directory, or the file is damaged; restore the file, or choose another --data-dir", formatFile)
	}
	return &f, nil
}

func (d *Dir) writeFormat() error {
	b, err := json.Marshal(format{Format: Format, WrittenBy: d.program})
	if err != nil {
		return err
	}
	return atomicfile.Write(d.Path(formatFile), append(b, '\n'), 0o600)
}

func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// unwrapPath drops the operation and path that an *os.PathError repeats.
func unwrapPath(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
