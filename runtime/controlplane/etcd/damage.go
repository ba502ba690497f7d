package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// DamagedError says that what is on the disk is not what a member left there.
type DamagedError struct {
	// Dir is the folder of the store.
	Dir string
	// Reason is what was found to be wrong.
	Reason error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the store in %s is damaged: %v: put the whole data directory back from a backup; without one, move that folder away (and keep it) to begin with an empty store", e.Dir, e.Reason)
}

func (e *DamagedError) Unwrap() error { return e.Reason }

// inspect says what is wrong with a store before a member opens it, as a member
// ends the whole process on most damages, and waits for ever on some.
func inspect(dir string) error {
	database := filepath.Join(dir, "member", "snap", "db")
	applied, err := lastApplied(database)
	if err != nil {
		return &DamagedError{Dir: dir, Reason: fmt.Errorf("its database %s: %w", database, err)}
	}
	if applied == 0 {
		return nil // a new store, or one that its log makes again from the beginning
	}
	if err := logReaches(filepath.Join(dir, "member", "wal"), applied); err != nil {
		return &DamagedError{Dir: dir, Reason: err}
	}
	return nil
}

// lastApplied is the number of the last change that a database holds, 0 when
// there is none yet.
func lastApplied(database string) (uint64, error) {
	file, err := os.Open(database)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	if err := checkPages(file, info.Size()); err != nil {
		return 0, err
	}
	db, err := bolt.Open(database, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return 0, errors.New("another process has it open: stop that process")
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	var applied uint64
	err = db.View(func(tx *bolt.Tx) error {
		if bucket := tx.Bucket([]byte("meta")); bucket != nil {
			if v := bucket.Get([]byte("consistent_index")); len(v) == 8 {
				applied = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	return applied, err
}

// logReaches fails when a log ends before the change that a database holds
// already. A member that carries on from such a log takes all that is new for
// old, and answers nobody.
func logReaches(dir string, applied uint64) (err error) {
	defer func() {
		if r := recover(); r != nil { // a record that is whole and makes no sense
			err = fmt.Errorf("its log in %s can't be read: %v", dir, r)
		}
	}()
	if !wal.Exist(dir) {
		return fmt.Errorf("its log in %s is missing", dir)
	}
	index := applied - 1
	// Only what is behind index is kept, which is little; of the log's files the
	// last one or two are read.
	log, err := wal.OpenForRead(zap.NewNop(), dir, &walpb.Snapshot{Index: &index, Term: new(uint64)})
	if err != nil {
		return fmt.Errorf("its log in %s can't be read: %w", dir, err)
	}
	defer func() { _ = log.Close() }()
	_, _, entries, err := log.ReadAll()
	if err != nil && !errors.Is(err, wal.ErrSnapshotNotFound) && !errors.Is(err, wal.ErrSnapshotMismatch) {
		return fmt.Errorf("its log in %s can't be read: %w", dir, err)
	}
	if len(entries) == 0 {
		return fmt.Errorf("its log in %s ends before change %d, which its database has", dir, applied)
	}
	return nil
}

// The layout of bbolt's file, by its documentation of format 2: pages of one
// size, and two pages, used in turn, describe the whole.
const (
	pageHeaderSize = 16 // id, flags, count of elements, count of further pages
	elementSize    = 16
	metaSize       = 64
	bucketSize     = 16 // root page, sequence

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	branchPage = 0x01
	leafPage   = 0x02

	bucketElement = 0x01

	minPageSize, maxPageSize = 1 << 10, 1 << 25
)

// checkPages reads a bbolt file and says what is wrong with it. bbolt itself
// trusts its file: a page that isn't one ends the process, and so does one that
// lies behind the file's end. All that can be reached is looked at, and nothing
// that is read is trusted.
func checkPages(file io.ReaderAt, size int64) error {
	m, err := newestMeta(file, size)
	if err != nil {
		return err
	}
	if m.pages > uint64(size)/m.pageSize {
		return fmt.Errorf("it was cut short: %d bytes are left of at least %d", size, m.pages*m.pageSize)
	}
	w := pageWalk{file: file, meta: m, seen: make([]bool, m.pages), todo: []uint64{m.root}}
	for len(w.todo) > 0 {
		id := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if err := w.page(id); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
	}
	return nil
}

// meta is what one of the two first pages says.
type meta struct {
	pageSize, root, pages, transaction uint64
}

// newestMeta finds the description that the last transaction wrote.
func newestMeta(file io.ReaderAt, size int64) (meta, error) {
	newest, found := meta{}, false
	consider := func(at int64) {
		if m, ok := readMeta(file, at); ok && (!found || m.transaction > newest.transaction) {
			newest, found = m, true
		}
	}
	consider(0)
	if found {
		consider(int64(newest.pageSize))
		return newest, nil
	}
	// The first one is damaged, so the size of pages is not known yet.
	for at := int64(minPageSize); at <= maxPageSize && at < size; at *= 2 {
		consider(at)
	}
	if !found {
		return meta{}, errors.New("its beginning is not that of a database")
	}
	return newest, nil
}

func readMeta(file io.ReaderAt, at int64) (meta, bool) {
	b := make([]byte, pageHeaderSize+metaSize)
	if _, err := file.ReadAt(b, at); err != nil {
		return meta{}, false
	}
	b = b[pageHeaderSize:]
	e := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSize-8])
	m := meta{pageSize: uint64(e.Uint32(b[8:])), root: e.Uint64(b[16:]), pages: e.Uint64(b[40:]), transaction: e.Uint64(b[48:])}
	ok := e.Uint32(b) == boltMagic && e.Uint32(b[4:]) == boltVersion && e.Uint64(b[56:]) == sum.Sum64() &&
		m.pageSize >= minPageSize && m.pageSize <= maxPageSize
	return m, ok
}

// pageWalk visits each page once.
type pageWalk struct {
	file io.ReaderAt
	meta meta
	seen []bool
	todo []uint64
}

func (w *pageWalk) page(id uint64) error {
	if id < 2 || id >= w.meta.pages {
		return errors.New("something refers to it, and there is no such page")
	}
	if w.seen[id] {
		return errors.New("it is in use twice")
	}
	w.seen[id] = true
	at := int64(id * w.meta.pageSize)
	header := make([]byte, pageHeaderSize)
	if _, err := w.file.ReadAt(header, at); err != nil {
		return err
	}
	e := binary.NativeEndian
	if e.Uint64(header) != id {
		return errors.New("it holds something else")
	}
	more := uint64(e.Uint32(header[12:]))
	if more >= w.meta.pages-id {
		return errors.New("it goes on behind the end of the file")
	}
	for next := id + 1; next <= id+more; next++ {
		if w.seen[next] {
			return errors.New("it is in use twice")
		}
		w.seen[next] = true
	}
	return w.elements(io.NewSectionReader(w.file, at, int64((more+1)*w.meta.pageSize)))
}

// elements looks at what a page holds, which may also be a page within another
// one: a small bucket is kept beside its name.
func (w *pageWalk) elements(page *io.SectionReader) error {
	e := binary.NativeEndian
	header := make([]byte, pageHeaderSize)
	if _, err := page.ReadAt(header, 0); err != nil {
		return errors.New("it ends too early")
	}
	flags, count := e.Uint16(header[8:]), int64(e.Uint16(header[10:]))
	if flags != branchPage && flags != leafPage {
		return errors.New("it is of no known kind")
	}
	table := make([]byte, count*elementSize)
	if _, err := page.ReadAt(table, pageHeaderSize); err != nil && count > 0 {
		return errors.New("it has more elements than room")
	}
	for i := range count {
		element := table[i*elementSize:]
		begin := pageHeaderSize + i*elementSize
		if flags == branchPage {
			if key := begin + int64(e.Uint32(element)) + int64(e.Uint32(element[4:])); key > page.Size() {
				return errors.New("a key lies behind its end")
			}
			w.todo = append(w.todo, e.Uint64(element[8:]))
			continue
		}
		value := begin + int64(e.Uint32(element[4:])) + int64(e.Uint32(element[8:]))
		length := int64(e.Uint32(element[12:]))
		if value+length > page.Size() {
			return errors.New("a value lies behind its end")
		}
		if e.Uint32(element)&bucketElement == 0 {
			continue
		}
		if err := w.bucket(io.NewSectionReader(page, value, length)); err != nil {
			return err
		}
	}
	return nil
}

func (w *pageWalk) bucket(value *io.SectionReader) error {
	b := make([]byte, bucketSize)
	if _, err := value.ReadAt(b, 0); err != nil {
		return errors.New("a bucket in it is not one")
	}
	if root := binary.NativeEndian.Uint64(b); root != 0 {
		w.todo = append(w.todo, root)
		return nil
	}
	inline := make([]byte, value.Size()-bucketSize)
	if _, err := value.ReadAt(inline, bucketSize); err != nil {
		return errors.New("a bucket in it ends too early")
	}
	return w.elements(io.NewSectionReader(bytes.NewReader(inline), 0, int64(len(inline))))
}
