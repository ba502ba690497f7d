package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
  kubectl --kubeconfig prod.kubeconfig --context jo@paris get pods

  # Clusters that can't be reached from here
  muster access proxy --cloud team-a/prod -- kubectl get pods`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAccessKubeconfigCommand(), newAccessProxyCommand(), newAccessCredentialCommand(),
		newAccessRequestCommand(), newAccessStatusCommand(), newAccessListCommand(), newAccessRevokeCommand())
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

func newAccessStatusCommand() *cobra.Command {
	var f accessFlags
	cmd := &cobra.Command{
		Use:   "status [NAMESPACE/NAME]",
		Short: "Print logical clouds, and what is wrong with their clusters",
		Example: `  muster access status
  muster access status team-a/prod`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			clouds := &v1alpha1.LogicalCloudList{}
			var in []client.ListOption
			if len(args) == 1 {
				f.cloud = args[0]
				if err := f.check(); err != nil {
					return err
				}
				in = append(in, client.InNamespace(f.namespace), client.MatchingFields{"metadata.name": f.cloudName})
			}
			if err := s.client.List(cmd.Context(), clouds, in...); err != nil {
				return fmt.Errorf("list the logical clouds: %w", err)
			}
			if len(args) == 1 && len(clouds.Items) == 0 {
				return fmt.Errorf("the hub has no logical cloud %q: without a name, this command lists them", args[0])
			}
			return printClouds(cmd.OutOrStdout(), clouds.Items)
		},
	}
	f.hub.add(cmd)
	f.timeout = defaultAccessTimeout
	return cmd
}

func printClouds(out io.Writer, clouds []v1alpha1.LogicalCloud) error {
	t := newTables(out)
	t.row("CLOUD", "NAMESPACE", "SELECTED", "READY", "FAILED", "KEYS")
	for i := range clouds {
		c := &clouds[i]
		counts := c.Status.Clusters
		t.row(c.Namespace+"/"+c.Name, c.Spec.Namespace.Name, counts.Selected, counts.Ready, counts.Failed, c.Spec.Access.KeyPolicy)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for i := range clouds {
		for _, failing := range clouds[i].Status.Clusters.Failing {
			if _, err := fmt.Fprintf(out, "%s/%s: cluster %s: %s: %s\n", clouds[i].Namespace, clouds[i].Name, failing.Name, failing.Reason, failing.Message); err != nil {
				return err
			}
		}
	}
	return nil
}

func newAccessListCommand() *cobra.Command {
	var f accessFlags
	cmd := &cobra.Command{
		Use:   "list [NAMESPACE]",
		Short: "Print the access requests of a namespace, or of all",
		Example: `  muster access list team-a
  muster access list --user jo@example.com`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			requests := &v1alpha1.AccessRequestList{}
			if err := s.client.List(cmd.Context(), requests, client.InNamespace(strings.Join(args, ""))); err != nil {
				return fmt.Errorf("list the access requests: %w", err)
			}
			return printRequests(cmd.OutOrStdout(), requests.Items, f.user, time.Now())
		},
	}
	f.hub.add(cmd)
	cmd.Flags().StringVar(&f.user, "user", "", "only the access of this user")
	return cmd
}

func printRequests(out io.Writer, requests []v1alpha1.AccessRequest, user string, now time.Time) error {
	t := newTables(out)
	t.row("REQUEST", "CLOUD", "CLUSTER", "USER", "REQUESTER", "KEY", "ENDS", "STATE")
	for i := range requests {
		r := &requests[i]
		if user != "" && r.Spec.User != user {
			continue
		}
		state, text := useraccess.Progress(r, now)
		if state == useraccess.Issued {
			text = "issued"
		}
		ends := "-"
		if end := r.Status.NotAfter; end != nil && end.After(now) {
			ends = "in " + duration.HumanDuration(end.Sub(now))
		}
		t.row(r.Namespace+"/"+r.Name, r.Spec.LogicalCloud, r.Spec.ManagedCluster, r.Spec.User, r.Spec.Requester.Username, r.Status.KeyHash, ends, text)
	}
	return t.flush()
}

func newAccessRevokeCommand() *cobra.Command {
	var f accessFlags
	var of string
	cmd := &cobra.Command{
		Use:   "revoke [NAMESPACE/REQUEST...]",
		Short: "Withdraw access",
		Long: `Withdraws access: deletes access requests, so that the clusters take the rights of
their keys away. That is done where "muster access list" does not show a request any
more; a cluster that is offline can't be told, and access ends there by itself.

The requests are those that are named, or all of a logical cloud that the flags select.`,
		Example: `  muster access revoke team-a/paris-0123456789
  muster access revoke --cloud team-a/prod --user jo@example.com`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.cloud == "" {
				return errors.New("name the requests, as \"muster access list\" does, or select them with --cloud")
			}
			if len(args) > 0 && (f.cloud != "" || f.user != "" || of != "") {
				return errors.New("name requests, or select them with --cloud, --user and --cluster; not both")
			}
			s, err := f.session(cmd)
			if err != nil {
				return err
			}
			return s.revoke(cmd, args, of)
		},
	}
	f.hub.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.cloud, "cloud", "", "all requests of this logical cloud, as NAMESPACE/NAME")
	flags.StringVar(&f.user, "user", "", "with --cloud: only the access of this user")
	flags.StringVar(&of, "cluster", "", "with --cloud: only the access to this cluster")
	f.timeout = defaultAccessTimeout
	_ = cmd.RegisterFlagCompletionFunc("cloud", f.completeClouds)
	return cmd
}

func (s *accessSession) revoke(cmd *cobra.Command, args []string, of string) error {
	var requests []v1alpha1.AccessRequest
	for _, arg := range args {
		namespace, name, ok := strings.Cut(arg, "/")
		if !ok {
			return fmt.Errorf("%q does not name an access request: write NAMESPACE/REQUEST, as \"muster access list\" does", arg)
		}
		r := v1alpha1.AccessRequest{}
		r.Namespace, r.Name = namespace, name
		requests = append(requests, r)
	}
	if s.flags.cloud != "" {
		if err := s.flags.check(); err != nil {
			return err
		}
		list := &v1alpha1.AccessRequestList{}
		if err := s.client.List(cmd.Context(), list, client.InNamespace(s.flags.namespace)); err != nil {
			return fmt.Errorf("list the access requests: %w", err)
		}
		for _, r := range list.Items {
			if r.Spec.LogicalCloud == s.flags.cloudName && (s.flags.user == "" || s.flags.user == r.Spec.User) && (of == "" || of == r.Spec.ManagedCluster) {
				requests = append(requests, r)
			}
		}
	}
	var failed []error
	for i := range requests {
		r := &requests[i]
		what := r.Namespace + "/" + r.Name
		switch err := s.client.Delete(cmd.Context(), r); {
		case apierrors.IsNotFound(err):
			failed = append(failed, fmt.Errorf("the hub has no access request %s", what))
		case err != nil:
			failed = append(failed, fmt.Errorf("withdraw %s: %w", what, err))
		default:
			forget(r.Namespace, r.Name)
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), "withdrawn:", what)
		}
	}
	if len(requests) == 0 {
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), "there is nothing to withdraw")
	}
	return errors.Join(failed...)
}
