package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// takeLock lets one process at a time change the fleet in the folder at path.
// The kernel drops the lock with the process. Unlike a data directory's it asks
// nothing of the disk: a fleet must be stoppable when that is full.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, "fleet.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the fleet in %s: %w: choose a folder that you can write to with --data-dir", path, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another muster up or muster down is at work on the fleet in %s: wait until it has ended", path)
	}
	return nil, fmt.Errorf("lock the fleet in %s: %w", path, err)
}
