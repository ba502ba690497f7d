package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
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
