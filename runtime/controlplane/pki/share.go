package pki

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
)

// ServiceAccountKey is the name of the file with the key that signs service-account
// tokens.
const ServiceAccountKey = "service-account.key"

// MinSecret is how many bytes a secret by which replicas share their keys has at least.
const MinSecret = 32

// Errors of Share.
var (
	// ErrWrongSecret says that the keys in the store were sealed with another secret, or
	// changed by somebody who does not know it.
	ErrWrongSecret = errors.New("the secret does not open the keys in the store")
	// ErrOtherKeys says that a folder has keys that are neither the store's nor their
	// successors.
	ErrOtherKeys = errors.New("it has another certificate authority or service-account key than the store")
	// ErrNotShared says that a store was made with keys that are not shared.
	ErrNotShared = errors.New("the store was made with keys that are not shared yet")
)

// Shared is a value that several processes share.
type Shared interface {
	// Empty reports whether nothing is kept beside the value yet.
	Empty(ctx context.Context) (bool, error)
	// Read returns the value and its version. Without one, the version is 0.
	Read(ctx context.Context) (value []byte, version int64, err error)
	// Write stores a value in the place of the one of a version. It returns false if there
	// is another one by now.
	Write(ctx context.Context, value []byte, version int64) (bool, error)
}

// bundle is what replicas have in common, by the names of the files. The certificates
// that each issues for itself are not in it.
type bundle map[string][]byte

func shared() []string {
	return []string{"ca.crt", "ca.key", previousFile, crossFile, ServiceAccountKey}
}

// takingFile is in a folder while what is shared is written to it: what is there counts
// for nothing then.
const takingFile = "taking-shared-keys"

// madeFolder is the pattern of folders for keys that are made and not shared yet.
const madeFolder = "made-*"

// Share gives dir the same authority and service-account key as all other folders that
// share them. The first one makes them, the authority named commonName; a folder without
// keys gets what is there. An authority that has taken the place of the shared one, by
// Replace, takes its place for all, and an authority that is no longer trusted, by Retire,
// is so for all: the others get that when they call Share again.
//
// What is shared is sealed with the secret, of MinSecret bytes at least, with AES-256-GCM
// under a key by HKDF (RFC 5869). The errors are ErrWrongSecret, ErrOtherKeys and
// ErrNotShared, and those of files and of what is shared.
func Share(ctx context.Context, dir, commonName string, secret []byte, with Shared, now time.Time) error {
	left, _ := filepath.Glob(filepath.Join(dir, madeFolder)) // by a process that was killed
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	for {
		// In this order: keys are shared before anything else is kept.
		empty, err := with.Empty(ctx)
		if err != nil {
			return err
		}
		sealed, version, err := with.Read(ctx)
		if err != nil {
			return err
		}
		own, err := readBundle(dir)
		if err != nil {
			return err
		}
		var theirs bundle
		if version != 0 {
			if theirs, err = open(sealed, secret); err != nil {
				return err
			}
		}
		take, err := choose(own, theirs)
		switch {
		case err != nil:
			return err
		case take == nil && !empty:
			return ErrNotShared
		case take == nil:
			if own, err = makeBundle(dir, commonName, now); err != nil {
				return err
			}
		case version != 0 && take.equal(theirs):
			if take.equal(own) {
				return nil
			}
			return theirs.write(dir)
		}
		if sealed, err = seal(own, secret); err != nil {
			return err
		}
		// What another replica has written meanwhile is taken in the next round.
		if _, err = with.Write(ctx, sealed, version); err != nil {
			return err
		}
	}
}

// choose is which of two bundles is the later one. Without any it is nil.
func choose(own, theirs bundle) (bundle, error) {
	switch {
	case len(theirs) == 0 && len(own) == 0:
		return nil, nil
	case len(theirs) == 0:
		return own, nil
	case len(own) == 0:
		return theirs, nil
	case !bytes.Equal(own[ServiceAccountKey], theirs[ServiceAccountKey]):
		return nil, ErrOtherKeys
	case !bytes.Equal(own["ca.crt"], theirs["ca.crt"]):
		switch {
		case own.follows(theirs):
			return own, nil
		case theirs.follows(own):
			return theirs, nil
		}
		return nil, ErrOtherKeys
	case len(own[previousFile]) == 0: // what came before is retired, here or there
		return own, nil
	}
	return theirs, nil
}

// follows reports whether an authority has taken another one's place.
func (b bundle) follows(other bundle) bool {
	return len(b[previousFile]) > 0 && bytes.Equal(bytes.TrimSpace(b[previousFile]), bytes.TrimSpace(other["ca.crt"]))
}

func (b bundle) equal(other bundle) bool {
	for _, name := range shared() {
		if !bytes.Equal(b[name], other[name]) {
			return false
		}
	}
	return true
}

// makeBundle makes keys in a folder of their own: dir gets them once they are shared, so
// that a replica that is killed in between keeps none that others don't know.
func makeBundle(dir, commonName string, now time.Time) (bundle, error) {
	made, err := os.MkdirTemp(dir, madeFolder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(made) }()
	if _, err := LoadOrCreateAuthority(made, commonName, now); err != nil {
		return nil, err
	}
	if _, err := LoadOrCreateKey(filepath.Join(made, ServiceAccountKey)); err != nil {
		return nil, err
	}
	return readBundle(made)
}

// readBundle reads the keys in dir, which may have none. A folder with some of them is an
// error.
func readBundle(dir string) (bundle, error) {
	if _, err := os.Stat(filepath.Join(dir, takingFile)); !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	b := bundle{}
	for _, name := range shared() {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			b[name] = content
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if len(b) == 0 {
		return nil, nil
	}
	if _, err := load(dir); err != nil {
		return nil, err
	}
	if len(b[ServiceAccountKey]) == 0 {
		return nil, fmt.Errorf("the certificate authority in %s has no %s beside it: put that back from a backup, "+
			"or empty the folder, which then gets what other replicas have", dir, ServiceAccountKey)
	}
	return b, nil
}

// write has the files of dir as in the bundle. After a crash in between, the next call of
// Share writes all of them again.
func (b bundle) write(dir string) error {
	taking := filepath.Join(dir, takingFile)
	if err := atomicfile.Write(taking, nil, 0o600); err != nil {
		return err
	}
	for _, name := range shared() {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if filepath.Ext(name) == ".key" {
			mode = 0o600
		}
		if len(b[name]) == 0 {
			if err := remove(path); err != nil {
				return err
			}
		} else if err := atomicfile.Write(path, b[name], mode); err != nil {
			return err
		}
	}
	return remove(taking)
}

const (
	saltSize = 16
	sealInfo = "muster keys of replicas, version 1"
)

func gcm(secret, salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, salt, sealInfo, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func seal(b bundle, secret []byte) ([]byte, error) {
	plain, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	aead, err := gcm(secret, salt)
	if err != nil {
		return nil, err
	}
	return aead.Seal(salt, nil, plain, []byte(sealInfo)), nil
}

func open(sealed, secret []byte) (bundle, error) {
	if len(sealed) < saltSize {
		return nil, ErrWrongSecret
	}
	aead, err := gcm(secret, sealed[:saltSize])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, sealed[saltSize:], []byte(sealInfo))
	if err != nil {
		return nil, ErrWrongSecret
	}
	b := bundle{}
	return b, json.Unmarshal(plain, &b)
}
