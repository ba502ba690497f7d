package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/internal/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print muster's version and that of the Kubernetes inside",
		Example: "  muster version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "muster %s\nkubernetes %s\netcd %s\n",
				version.Version(), version.Module("k8s.io/kubernetes"), version.Module("go.etcd.io/etcd/server/v3"))
			return err
		},
	}
}
