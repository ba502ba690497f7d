package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

func newDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop what muster up has started",
		Long: `Stops the hub and the clusters of a fleet: each is asked to end, and is ended when
it has not after ten seconds. The hub and dev clusters keep their data, and
muster up brings them back as they were; clusters made with kind are removed, and
come back empty: run terraform destroy before, as it can't reach them later.

Stopping a fleet that does not run is no error. To remove its data too, delete
the folder afterwards.`,
		Example: `  muster down

  muster down --data-dir .demo && rm -r .demo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := cli.SetupLogging(cmd); err != nil {
				return err
			}
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "nothing to stop: there is no fleet in %s\n", dir)
				return err
			}
			f, err := fleet.Open(dir, "")
			if err != nil {
				return err
			}
			defer f.Close()
			stopped, err := f.Down(cmd.Context())
			for _, name := range stopped {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s stopped\n", name)
			}
			if err == nil && len(stopped) == 0 {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "nothing to stop: nothing of the fleet in %s runs\n", dir)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", fleetDir, "folder of the fleet")
	return cmd
}
