package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

func newHubCACommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Replace the certificate authority of a hub",
		Long: `Replaces the certificate authority of a hub in two steps, each with the hub
stopped. No cluster joins again, and nobody is locked out in between.

"replace" makes a new authority, which signs from the next start on. The old one
stays trusted, and the hub shows a certificate that leads to either, so that
clients that know only one of them go on. Agents are told of both, and get a
certificate from the new one.

"retire" ends the trust in the old one. Do that when "muster status" shows that
all agents have followed, and when nobody uses an older kubeconfig any more.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		caCommand("replace", "Make a new certificate authority beside the old one", "the hub has a new certificate authority, and the old one stays trusted: start it", func(dir *datadir.Dir) error {
			_, err := pki.Replace(dir.Path("pki"), "muster-hub-ca", time.Now())
			return err
		}),
		caCommand("retire", "End the trust in the old certificate authority", "the hub no longer trusts its old certificate authority: start it", func(dir *datadir.Dir) error {
			err := pki.Retire(dir.Path("pki"))
			if errors.Is(err, pki.ErrNothingToRetire) {
				return fmt.Errorf("%w: muster hub ca replace makes a new one first", err)
			}
			return err
		}),
	)
	return cmd
}

// caCommand is a step that needs the data directory for itself.
func caCommand(use, short, done string, do func(*datadir.Dir) error) *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    short + ". The hub must not run meanwhile. Replicas get a copy of the folder pki.",
		Example: "  muster hub ca " + use + " --data-dir /var/lib/muster",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := datadir.Open(folder, "muster hub")
			if err != nil {
				return err
			}
			defer dir.Close()
			if err := do(dir); err != nil {
				return err
			}
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), done)
			return nil
		},
	}
	cmd.Flags().StringVar(&folder, "data-dir", "", "folder that keeps the hub's state (required)")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}
