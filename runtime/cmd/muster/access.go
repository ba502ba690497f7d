package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func newAccessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Get into the clusters of a logical cloud",
		Long: `Gets users of the hub into the clusters of a logical cloud, with certificates or
tokens that last for hours. The keys are made here and never leave this machine,
unless the logical cloud has the hub make them (keyPolicy HubMade).`,
		Example: `  muster access kubeconfig --cloud team-a/prod --output prod.kubeconfig
  kubectl --kubeconfig prod.kubeconfig --context jo@paris get pods`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAccessKubeconfigCommand(), newAccessCredentialCommand(), newAccessRequestCommand(),
		newAccessStatusCommand(), newAccessListCommand(), newAccessRevokeCommand())
	return cmd
}

// accessFlags say who asks where for access to what.
type accessFlags struct {
	hub               hubFlags
	cloud, user, mode string
	ttl, timeout      time.Duration
	// namespace and cloudName are the parts of cloud.
	namespace, cloudName string
}

func (f *accessFlags) add(cmd *cobra.Command) {
	f.hub.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.cloud, "cloud", "", "the logical cloud, as NAMESPACE/NAME")
	flags.StringVar(&f.user, "user", "", "user of the hub that gets access (default the one of the hub's kubeconfig; another needs the right to impersonate it)")
	flags.StringVar(&f.mode, "mode", "", "Certificate, Token or Auto (default what the cloud allows: Auto, which is a certificate where the cluster signs one)")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long access lasts, such as 1h (default what the cloud says)")
	flags.DurationVar(&f.timeout, "timeout", defaultAccessTimeout, "how long the answer may take")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"Certificate", "Token", "Auto"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("cloud", f.completeClouds)
}

const defaultAccessTimeout = 2 * time.Minute

// check reads the flags that have a form.
func (f *accessFlags) check() error {
	if f.cloud == "" {
		return fmt.Errorf("say which logical cloud: --cloud NAMESPACE/NAME; \"muster access status\" lists them")
	}
	var err error
	if f.namespace, f.cloudName, err = useraccess.SplitCloud(f.cloud); err != nil {
		return fmt.Errorf("--cloud: %w", err)
	}
	if err := useraccess.CheckLifetime(f.ttl); err != nil {
		return fmt.Errorf("--ttl: %w", err)
	}
	switch v1alpha1.AccessMode(f.mode) {
	case "", v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto:
	default:
		return fmt.Errorf("--mode is %q, and takes Certificate, Token or Auto", f.mode)
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout is %s, and has to be more than 0", f.timeout)
	}
	return nil
}

// newAccessRequestCommand makes keys for those who ask by other means.
func newAccessRequestCommand() *cobra.Command {
	var f accessFlags
	var path string
	cmd := &cobra.Command{
		Use:   "request --key FILE",
		Short: "Print a certificate request to ask for access with",
		Long: `Prints a certificate request in PEM whose subject is the one that the hub takes: for
muster_access_request in Terraform, or for an AccessRequest by hand. The key is read
from the file, or made and written there, for its owner alone.`,
		Example: `  muster access request --key ci.key --user system:serviceaccount:team-a:ci > ci.csr`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return fmt.Errorf("say where the key is, or shall be: --key FILE")
			}
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			return s.printRequest(cmd.Context(), cmd.OutOrStdout(), path, f.user)
		},
	}
	f.hub.add(cmd)
	cmd.Flags().StringVar(&f.user, "user", "", "user of the hub that gets access (default the one of the hub's kubeconfig)")
	cmd.Flags().StringVar(&path, "key", "", "file of the private key, in PEM")
	return cmd
}

// program is the path by which kubeconfigs call this program.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return "muster"
	}
	return path
}
