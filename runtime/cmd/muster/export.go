package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/export"
)

func newExportCommand() *cobra.Command {
	var at hubFlags
	var hcl bool
	options := export.Options{}
	cmd := &cobra.Command{
		Use:   "export --hcl --dir DIR",
		Short: "Write what a hub has as Terraform configuration",
		Long: `Writes the clusters, sets, bindings, placements, works and replica sets of a hub as
Terraform configuration, with the blocks that import them. It is for OpenTofu and
for Terraform before 1.14, which have no "terraform query".

What Terraform manages already is left out, and so is what the hub or a controller
makes itself, what is being deleted, and what may be secret. Bootstrap tokens are
only exported when --kinds names them, as an import puts them into the state.
Nothing on the hub is changed, and no file is overwritten.`,
		Example: `  muster export --hcl --dir fleet --kubeconfig ~/.kube/hub.kubeconfig
  muster export --hcl --dir shop --cluster-set production --selector team=shop
  terraform -chdir=fleet init && terraform -chdir=fleet plan`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !hcl {
				return fmt.Errorf("HCL is the only form that can be exported: leave --hcl=false out")
			}
			var err error
			if options.Provider, err = at.provider(); err != nil {
				return err
			}
			return writeExport(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), options)
		},
	}
	at.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&hcl, "hcl", true, "write Terraform configuration, the only form there is")
	flags.StringVar(&options.Dir, "dir", "hub", "folder for the configuration, which must not have files of the same names")
	flags.StringSliceVar(&options.Kinds, "kinds", nil, "resource types without muster_, such as placement,manifest_work (default all but bootstrap_token)")
	flags.StringVar(&options.ClusterSet, "cluster-set", "", "only this set, its clusters, and what is about them")
	flags.StringVar(&options.Selector, "selector", "", "only objects with these labels, such as team=shop,env!=test")
	flags.StringVar(&options.Namespace, "namespace", "", "only what is in this namespace of the hub")
	return cmd
}

func writeExport(ctx context.Context, out, warnings io.Writer, options export.Options) error {
	provider, err := newProvider(ctx, options.Provider)
	if err != nil {
		return err
	}
	if len(options.Kinds) > 0 {
		provider.Warn = func(d embedded.Diagnostic) { _, _ = fmt.Fprintln(warnings, "warning:", d) }
	}
	exported, err := export.Write(ctx, provider, options)
	if err != nil {
		return err
	}
	if len(exported) == 0 {
		_, err := fmt.Fprintln(out, "There is nothing to export: the hub has nothing that fits, or Terraform manages it already.")
		return err
	}
	total := 0
	for _, e := range exported {
		total += e.Count
		_, _ = fmt.Fprintf(out, "%5d muster_%s\n", e.Count, e.Kind)
	}
	_, err = fmt.Fprintf(out, "\n%d resources are in %s. Next:\n\n  terraform -chdir=%s init\n  terraform -chdir=%s plan    # %d to import, and nothing else\n  terraform -chdir=%s apply\n",
		total, options.Dir, options.Dir, options.Dir, total, options.Dir)
	return err
}
