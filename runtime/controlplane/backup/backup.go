// Package backup writes what a hub keeps into one encrypted file, and restores it: the
// store as of one moment, and the keys that belong to it.
//
// The file is a gzipped tar archive in the format of age (age-encryption.org/v1), which
// finds out when a part is changed or missing. A hub goes on while it is backed up. A
// store that is restored counts on from a revision that the old one can't have come to,
// so that clients who watched that one read everything again.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/etcd"
)

const (
	// format is the number of the layout of a backup. Raise it when an older program
	// could no longer read what a newer one wrote.
	format = 1

	infoName = "backup.json"
	keysDir  = "pki"
	// The store comes in pieces, as nobody knows how long it is before it has come.
	storeDir   = "store"
	pieceBytes = 4 << 20

	// maxFiles, maxFileBytes, maxInfoBytes and maxStoreBytes bound what is read: who knows
	// an age recipient can make a file for it.
	maxFiles, maxFileBytes, maxInfoBytes = 100, 1 << 20, 64 << 10
	// maxStoreBytes is twice what a store may have.
	maxStoreBytes = 16 << 30
)

// Info is what a backup says of itself.
type Info struct {
	// Format is that of the backup, and DataFormat that of the data directory.
	Format     int `json:"format"`
	DataFormat int `json:"dataFormat"`
	// Program is what wrote it, with its version.
	Program string `json:"program"`
	// Time is when it was begun. What was written later is not in it.
	Time time.Time `json:"time"`

	// Keys is how many files with keys and certificates it has, and StoreBytes how large
	// its store is. They are counted when it is read.
	Keys       int   `json:"-"`
	StoreBytes int64 `json:"-"`
}

var (
	// fileName is what a file with a key may be called.
	fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

	errIncomplete = errors.New("it is not complete: make another one")
)

// WriteFile writes a backup to a file that is not there yet, whole or not at all.
func WriteFile(ctx context.Context, name, dir, program string, now time.Time, to ...age.Recipient) (err error) {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("the file %q is there: name another one, as no backup is overwritten", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-") // mode 0600
	if err != nil {
		return fmt.Errorf("make the file of the backup: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // of what has failed
	if err := errors.Join(Write(ctx, f, dir, program, now, to...), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// Write writes a backup of the hub whose data directory is dir, for those who can open
// what is encrypted to the recipients. It works while the hub runs, and while it does not.
func Write(ctx context.Context, w io.Writer, dir, program string, now time.Time, to ...age.Recipient) error {
	store, err := openStore(ctx, dir)
	if err != nil {
		return err
	}
	defer store.Close()
	encrypted, err := age.Encrypt(w, to...)
	if err != nil {
		return fmt.Errorf("encrypt the backup: %w", err)
	}
	compressed, err := gzip.NewWriterLevel(encrypted, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	info, err := json.Marshal(Info{Format: format, DataFormat: datadir.Format, Program: program, Time: now.UTC()})
	if err == nil {
		err = add(archive, infoName, now, info)
	}
	if err == nil {
		err = addKeys(archive, filepath.Join(dir, keysDir), now)
	}
	if err == nil {
		err = addStore(archive, store, now)
	}
	return errors.Join(err, archive.Close(), compressed.Close(), encrypted.Close())
}

func add(archive *tar.Writer, name string, now time.Time, content []byte) error {
	err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: now})
	if err == nil {
		_, err = archive.Write(content)
	}
	if err != nil {
		return fmt.Errorf("write %s of the backup: %w", name, err)
	}
	return nil
}

func addKeys(archive *tar.Writer, dir string, now time.Time) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the hub's keys: %w", err)
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !fileName.MatchString(f.Name()) {
			continue // what a write has left that was interrupted
		}
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("read the hub's keys: %w", err)
		}
		if err := add(archive, path.Join(keysDir, f.Name()), now, content); err != nil {
			return err
		}
	}
	return nil
}

func addStore(archive *tar.Writer, store io.Reader, now time.Time) error {
	piece := make([]byte, pieceBytes)
	for i := 0; ; i++ {
		n, err := io.ReadFull(store, piece)
		if n > 0 {
			if err := add(archive, fmt.Sprintf("%s/%06d", storeDir, i), now, piece[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the hub's store: %w", err)
		}
	}
}

// openStore reads the store of a hub as of this moment: from the hub if it runs, and
// otherwise from a member of the store that runs until the store is closed.
func openStore(ctx context.Context, dir string) (io.ReadCloser, error) {
	store, run := filepath.Join(dir, "etcd"), filepath.Join(dir, "run")
	if _, err := os.Stat(filepath.Join(store, "member")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the data directory %q has no store: give the folder of a hub that has run. "+
			"The store of a hub with --etcd-servers is backed up with etcdctl snapshot save, "+
			"and its secret is in --replica-key-file", dir)
	} else if err != nil {
		return nil, fmt.Errorf("read the data directory %q: %w", dir, err)
	}
	if datadir.Owner(dir) > 0 {
		s, err := etcd.Snapshot(ctx, etcd.SocketURL(run))
		if err != nil {
			return nil, fmt.Errorf("read the store of the hub that runs on %q: %w", dir, err)
		}
		return s, nil
	}
	owned, err := datadir.Open(dir, "muster "+version.Version())
	if err != nil {
		return nil, err
	}
	member, err := etcd.Start(ctx, store, run)
	if err != nil {
		owned.Close()
		return nil, err
	}
	stop := func() { member.Stop(); owned.Close() }
	s, err := etcd.Snapshot(ctx, member.Endpoint)
	if err != nil {
		stop()
		return nil, err
	}
	return &stopping{s, stop}, nil
}

// stopping is a store whose member is stopped with it.
type stopping struct {
	io.ReadCloser
	stop func()
}

func (s *stopping) Close() error {
	defer s.stop()
	return s.ReadCloser.Close()
}

// Check reads a whole backup and finds out whether it can be restored.
func Check(r io.Reader, by ...age.Identity) (Info, error) {
	scratch, err := os.MkdirTemp("", "muster-backup-") // mode 0700
	if err != nil {
		return Info{}, err
	}
	info, err := unpack(r, scratch, by)
	return info, errors.Join(err, os.RemoveAll(scratch))
}

// Restore makes the data directory dir from a backup. dir has to be empty, or not to be
// there; it has nothing of a hub when that fails.
func Restore(r io.Reader, dir string, by ...age.Identity) (_ Info, err error) {
	if err := empty(dir); err != nil {
		return Info{}, err
	}
	owned, err := datadir.Open(dir, "muster "+version.Version())
	if err != nil {
		return Info{}, err
	}
	defer owned.Close()
	// Beside what it becomes: the directory may be the root of a volume.
	unpacked := owned.Path(".restoring")
	defer func() { err = errors.Join(err, os.RemoveAll(unpacked)) }()
	if err := os.Mkdir(unpacked, 0o700); err != nil {
		return Info{}, err
	}
	info, err := unpack(r, unpacked, by)
	if err != nil {
		return info, err
	}
	// The store comes before the keys: a hub does not start on a store without them.
	for _, part := range []string{"etcd", keysDir} {
		if err := os.Rename(filepath.Join(unpacked, part), owned.Path(part)); err != nil {
			return info, fmt.Errorf("move the restored files to the data directory: %w", err)
		}
	}
	return info, nil
}

// empty checks that a folder has nothing of a hub, nor anything else.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the data directory %q: %w", dir, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "lost+found", "lock", "format.json": // of a volume, and of a restore that has failed
		case ".restoring":
			return fmt.Errorf("the data directory %q has %s, of a restore that was killed: "+
				"remove all that is in it, and restore again", dir, e.Name())
		default:
			return fmt.Errorf("the data directory %q is not empty, it has %s: "+
				"restore into a new one, as nothing is overwritten", dir, e.Name())
		}
	}
	return nil
}

// unpack reads a backup into the folders pki and etcd of dir.
func unpack(r io.Reader, dir string, by []age.Identity) (Info, error) {
	var info Info
	decrypted, err := age.Decrypt(r, by...)
	if err != nil {
		var none *age.NoIdentityMatchError
		if errors.As(err, &none) {
			return info, errors.New("the backup can't be opened with this identity or passphrase: " +
				"give the one that it was made for")
		}
		return info, fmt.Errorf("the file is not a backup, or it is damaged: %w", err)
	}
	compressed, err := gzip.NewReader(decrypted)
	if err != nil {
		return info, fmt.Errorf("the file is not a backup, or it is damaged: %w", err)
	}
	u := unpacking{dir: dir, info: &info}
	if err := u.all(tar.NewReader(compressed)); err != nil {
		return info, fmt.Errorf("read the backup: %w", err)
	}
	// What is behind the archive has to be whole, too.
	if _, err := io.Copy(io.Discard, compressed); err != nil {
		return info, fmt.Errorf("read the backup: %w", err)
	}
	if info.Keys == 0 || info.StoreBytes == 0 {
		return info, errIncomplete
	}
	snapshot := filepath.Join(dir, "snapshot.db")
	if err := etcd.Restore(snapshot, filepath.Join(dir, "etcd")); err != nil {
		return info, err
	}
	return info, os.Remove(snapshot)
}

// unpacking is a backup that is being read.
type unpacking struct {
	dir  string
	info *Info
}

func (u *unpacking) all(archive *tar.Reader) error {
	h, err := archive.Next()
	if err != nil {
		return err
	}
	if err := u.readInfo(h, archive); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(u.dir, keysDir), 0o700); err != nil {
		return err
	}
	store, err := os.OpenFile(filepath.Join(u.dir, "snapshot.db"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for {
		h, err = archive.Next()
		if err == nil {
			err = u.entry(h, archive, store)
		}
		if err != nil {
			break
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, store.Sync(), store.Close())
}

func (u *unpacking) readInfo(h *tar.Header, r io.Reader) error {
	if h.Name != infoName {
		return fmt.Errorf("it begins with %q and not with %s: it is not a backup of a hub", h.Name, infoName)
	}
	if err := json.NewDecoder(io.LimitReader(r, maxInfoBytes)).Decode(u.info); err != nil {
		return fmt.Errorf("read %s: %w", infoName, err)
	}
	if u.info.Format > format || u.info.DataFormat > datadir.Format {
		return fmt.Errorf("it was written by %s, and this program reads backups up to format %d "+
			"of data up to format %d: restore it with that version or a newer one",
			u.info.Program, format, datadir.Format)
	}
	return nil
}

// entry reads one file. Its name is not to be trusted.
func (u *unpacking) entry(h *tar.Header, r io.Reader, store io.Writer) error {
	folder, name := path.Split(h.Name)
	switch {
	case h.Typeflag != tar.TypeReg || !fileName.MatchString(name):
	case strings.TrimSuffix(folder, "/") == storeDir:
		if u.info.StoreBytes += h.Size; u.info.StoreBytes > maxStoreBytes {
			return errors.New("its store is larger than a hub's can be: it is not a backup of a hub")
		}
		_, err := io.Copy(store, r)
		return err
	case strings.TrimSuffix(folder, "/") == keysDir:
		if u.info.Keys++; u.info.Keys > maxFiles || h.Size > maxFileBytes {
			return fmt.Errorf("%q is too large, or one of too many: it is not a backup of a hub", h.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(u.dir, keysDir, name), content, 0o600)
	}
	return fmt.Errorf("it has %q, which no backup of a hub has", h.Name)
}
