package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/backup"
)

const backupProgram = "muster hub"

func newHubBackupCommand() *cobra.Command {
	var dir, passphraseFile, output string
	var recipients []string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Write what a hub keeps into one encrypted file",
		Long: `Writes what a hub keeps into one encrypted file: its store as of one moment, its
certificate authority and its keys. The hub goes on meanwhile; one that does not
run is backed up, too. Run it on the hub's machine, or in its pod, as its user.

The file is for age recipients (age-encryption.org), or for who knows a passphrase.
"muster hub --backup-dir" makes backups by itself.`,
		Example: `  age-keygen -o backup.key        # keep it where the backups are not
  muster hub backup --data-dir /var/lib/muster --recipient age1… --output hub.backup

  openssl rand -hex 32 > passphrase
  muster hub backup --data-dir /var/lib/muster --passphrase-file passphrase --output hub.backup`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			to, err := backup.Recipients(recipients, passphraseFile)
			if err != nil {
				return fmt.Errorf("--recipient, --passphrase-file: %w", err)
			}
			program := backupProgram + " " + version.Version()
			if output == "-" {
				return backup.Write(cmd.Context(), cmd.OutOrStdout(), dir, program, time.Now(), to...)
			}
			if err := backup.WriteFile(cmd.Context(), output, dir, program, time.Now(), to...); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s has the hub as it is now\n", output)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "folder that keeps the hub's state (required)")
	f.StringArrayVar(&recipients, "recipient", nil, "age recipient that can open the backup; may be repeated")
	f.StringVar(&passphraseFile, "passphrase-file", "",
		"file with the passphrase that opens the backup, in place of --recipient")
	f.StringVar(&output, "output", "", "file to write; - is the standard output (required)")
	_ = cmd.MarkFlagRequired("data-dir")
	_ = cmd.MarkFlagRequired("output")
	return cmd
}

func newHubRestoreCommand() *cobra.Command {
	var dir, identityFile, passphraseFile string
	var check bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a hub's data directory from a backup",
		Long: `Makes the data directory of a hub from a backup, in a folder that is empty or not
there. Start the hub on it then, with the flags that it had: agents, kubeconfigs and
tokens go on, as its keys are the same. What was written after the backup is
missing; "terraform apply" writes it again.

Never run the restored hub beside the one that it was copied from.`,
		Example: `  muster hub restore hub.backup --identity-file backup.key --data-dir /var/lib/muster
  muster hub restore hub.backup --identity-file backup.key --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if check == (dir != "") {
				return errors.New("give --data-dir to restore the backup, " +
					"or --check to find out whether it can be restored")
			}
			by, err := backup.Identities(identityFile, passphraseFile)
			if err != nil {
				return fmt.Errorf("--identity-file, --passphrase-file: %w", err)
			}
			info, err := readBackup(args[0], dir, by)
			if err != nil {
				return err
			}
			done := "can be restored"
			if dir != "" {
				done = "is restored: start the hub on " + dir
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(),
				"the backup of %s by %s, with %d MiB of store and %d files of keys, %s\n",
				info.Time.Format(time.RFC3339), info.Program, info.StoreBytes>>20, info.Keys, done)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "folder that is to keep the hub's state; it has to be empty, or not to be there")
	f.StringVar(&identityFile, "identity-file", "", "file with the age identity that opens the backup")
	f.StringVar(&passphraseFile, "passphrase-file", "", "file with the passphrase that opens the backup")
	f.BoolVar(&check, "check", false,
		"only find out whether the backup can be restored; its store is unpacked to a temporary folder for that")
	return cmd
}

// backupFlags are the flags of a hub that makes backups by itself.
type backupFlags struct {
	made           backup.Schedule
	recipients     []string
	passphraseFile string
}

func (b *backupFlags) add(f *pflag.FlagSet) {
	f.StringVar(&b.made.Dir, "backup-dir", "",
		"folder for encrypted backups that the hub makes by itself, for this hub alone, best on another disk; "+
			"none are made without it")
	f.DurationVar(&b.made.Every, "backup-every", 24*time.Hour, "time from one backup in --backup-dir to the next")
	f.IntVar(&b.made.Keep, "backup-keep", 7, "how many backups stay in --backup-dir")
	f.StringArrayVar(&b.recipients, "backup-recipient", nil,
		"age recipient that can open the backups in --backup-dir; may be repeated")
	f.StringVar(&b.passphraseFile, "backup-passphrase-file", "",
		"file with the passphrase that opens the backups in --backup-dir, in place of --backup-recipient")
}

// schedule is what the flags say; nil when no backups are to be made.
func (b *backupFlags) schedule() (*backup.Schedule, error) {
	if b.made.Dir == "" {
		if len(b.recipients) > 0 || b.passphraseFile != "" {
			return nil, errors.New("--backup-recipient and --backup-passphrase-file are for backups " +
				"that nothing makes: give --backup-dir, too")
		}
		return nil, nil
	}
	var err error
	if b.made.To, err = backup.Recipients(b.recipients, b.passphraseFile); err != nil {
		return nil, fmt.Errorf("--backup-recipient, --backup-passphrase-file: %w", err)
	}
	b.made.Program = backupProgram + " " + version.Version()
	return &b.made, nil
}

// readBackup restores a backup to a folder, or only checks it if that is "".
func readBackup(name, dir string, by []age.Identity) (backup.Info, error) {
	file, err := os.Open(name)
	if err != nil {
		return backup.Info{}, err
	}
	defer func() { _ = file.Close() }()
	if dir == "" {
		return backup.Check(file, by...)
	}
	return backup.Restore(file, dir, by...)
}
