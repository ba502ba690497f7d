package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
)

// NewVersionCommand returns the command version. It prints the versions of
// Kubernetes and etcd only in the program that holds them.
func NewVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print muster's version and that of the Kubernetes inside",
		Example: "  muster version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := [][2]string{
				{"muster", version.Version()},
				{"kubernetes", version.Module("k8s.io/kubernetes")},
				{"etcd", version.Module("go.etcd.io/etcd/server/v3")},
			}
			for _, row := range rows {
				if row[1] == "" {
					continue
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", row[0], row[1]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
