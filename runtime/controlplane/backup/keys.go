package backup

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"
)

// minPassphrase is how many characters a passphrase has at least.
const minPassphrase = 16

// Recipients are those who can open a backup: the owners of age recipients, such as
// age1…, or who knows the passphrase in a file, but not both.
func Recipients(given []string, passphraseFile string) ([]age.Recipient, error) {
	switch {
	case len(given) > 0 && passphraseFile != "":
		return nil, errors.New("both an age recipient and a passphrase are given: give one of them")
	case passphraseFile != "":
		passphrase, err := readPassphrase(passphraseFile)
		if err != nil {
			return nil, err
		}
		r, err := age.NewScryptRecipient(passphrase)
		return []age.Recipient{r}, err
	case len(given) == 0:
		return nil, errors.New("a backup has the hub's keys, and so is always encrypted: " +
			"give an age recipient, as age-keygen prints it, or the file of a passphrase")
	}
	var all []age.Recipient
	for _, text := range given {
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("the age recipient %q can't be used: %w: "+
				"give what age-keygen prints as the public key", text, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// Identities are what opens a backup: the file with an age identity, as age-keygen writes
// it, or that with the passphrase.
func Identities(identityFile, passphraseFile string) ([]age.Identity, error) {
	switch {
	case (identityFile == "") == (passphraseFile == ""):
		return nil, errors.New("give what the backup was encrypted with: " +
			"the file of an age identity, or that of a passphrase")
	case passphraseFile != "":
		passphrase, err := readPassphrase(passphraseFile)
		if err != nil {
			return nil, err
		}
		i, err := age.NewScryptIdentity(passphrase)
		return []age.Identity{i}, err
	}
	f, err := os.Open(identityFile)
	if err != nil {
		return nil, fmt.Errorf("read the age identity: %w", err)
	}
	defer func() { _ = f.Close() }()
	all, err := age.ParseIdentities(f)
	if err != nil {
		// The error of the library may repeat the secret.
		return nil, fmt.Errorf("the file %q has no age identity: give the one that age-keygen wrote", identityFile)
	}
	return all, nil
}

func readPassphrase(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	passphrase := strings.TrimSpace(string(content))
	if len(passphrase) < minPassphrase {
		return "", fmt.Errorf("the passphrase in %q has %d characters, and needs at least %d: "+
			"make one with openssl rand -hex 32", file, len(passphrase), minPassphrase)
	}
	return passphrase, nil
}
