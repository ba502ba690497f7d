// Package atomicfile replaces files whole. It imports nothing of muster.
//
// It is a dozen lines, so no library is worth its place here: renameio adds
// links and options that nothing here needs, and does not build on Windows.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces the file at name with data, whole or not at all, so that a
// reader or a crash never meets half of it. The folder has to exist.
func Write(name string, data []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(tmp.Name(), name)
}
