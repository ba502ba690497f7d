package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/gctuner"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/version"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/page"
)

func newHubCommand() *cobra.Command {
	gates := features.NewHub()
	o := hub.Options{Features: gates}
	var cleaned, sniCertKeys []string
	var backups backupFlags
	var provider page.OIDC
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run the hub that clusters join",
		Long: `Runs a hub in the foreground: a Kubernetes control plane with embedded etcd, and
the controllers that register clusters, place workloads and keep their state.

Once it is ready it prints one line, "hub ready URL kubeconfig PATH". Everything
is kept in the data directory, so that the hub can be killed at any moment and
carries on where it was. SIGTERM drains requests and exits with 0.`,
		Example: `  # A hub on this machine
  muster hub --data-dir ./hub
  kubectl --kubeconfig ./hub/admin.kubeconfig get managedclusters

  # A hub that clusters elsewhere can join
  muster hub --data-dir /var/lib/muster --bind-address 0.0.0.0 --external-url https://hub.example.org:6443`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.SetupLogging(cmd)
			if err != nil {
				return err
			}
			o.Log = logging.Library(log)
			if o.CleanedResources, err = gc.ParseResources(cleaned); err != nil {
				return fmt.Errorf("--gc-resource-list: %w", err)
			}
			if o.NamedCertificates, err = parseCertKeys(sniCertKeys); err != nil {
				return err
			}
			if o.Backups, err = backups.schedule(); err != nil {
				return err
			}
			if provider.IssuerURL != "" {
				o.WebPageOIDC = &provider
			} else if f := given(cmd.Flags(), "web-page-oidc-"); f != "" {
				return fmt.Errorf("--%s is given without --web-page-oidc-issuer-url: give both", f)
			}
			switch o.Audit.LogPath {
			case "":
				o.Audit.LogPath = filepath.Join(o.DataDir, "audit", "audit.log")
			case "off":
				o.Audit.LogPath = ""
			}
			started := make(chan struct{})
			o.CaughtUp = func() { close(started) }
			go gctuner.Run(cmd.Context(), clock.RealClock{}, started)
			return hub.Run(cmd.Context(), o, func(r hub.Ready) {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "hub ready %s kubeconfig %s\n", r.URL, r.Kubeconfig)
			})
		},
	}
	hubCommandFlags(cmd.Flags(), &o, &cleaned, &sniCertKeys)
	securityFlags(cmd.Flags(), &o)
	webPageFlags(cmd.Flags(), &o, &provider)
	backups.add(cmd.Flags())
	cmd.AddCommand(newHubCACommand(), newHubBackupCommand(), newHubRestoreCommand(), newHubKubeconfigCommand())
	features.AddFlag(cmd.Flags(), gates)
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}

// parseCertKeys reads --tls-sni-cert-key.
func parseCertKeys(given []string) ([]controlplane.NamedCertificate, error) {
	var parsed []controlplane.NamedCertificate
	for _, pair := range given {
		cert, key, ok := strings.Cut(pair, ",")
		if !ok || cert == "" || key == "" || strings.Contains(key, ",") {
			return nil, fmt.Errorf("--tls-sni-cert-key %q is not a pair of files: give the certificate and its key, as cert.pem,key.pem", pair)
		}
		parsed = append(parsed, controlplane.NamedCertificate{CertFile: cert, KeyFile: key})
	}
	return parsed, nil
}

// hubCommandFlags adds the flags that set o, cleaned for o.CleanedResources, and
// sniCertKeys for o.NamedCertificates.
func hubCommandFlags(f *pflag.FlagSet, o *hub.Options, cleaned, sniCertKeys *[]string) {
	f.StringVar(&o.DataDir, "data-dir", "", "folder that keeps the hub's state; made when it does not exist (required)")
	f.IPVar(&o.BindAddress, "bind-address", net.IPv4(127, 0, 0, 1), "address to listen on")
	f.IntVar(&o.SecurePort, "secure-port", 6443, "port to listen on; 0 takes a free one")
	f.StringVar(&o.ExternalURL, "external-url", "", "where agents and users reach the hub, when that is not the address that it listens on")
	f.StringSliceVar(&o.AdditionalExternalURLs, "additional-external-urls", nil,
		"further URLs of the hub, such as the one before --external-url while agents go over to that; the serving certificate is for all of them")
	f.StringSliceVar(&o.ExternalCAFiles, "external-ca-files", nil,
		"PEM files with the authorities of --tls-sni-cert-key, of today or tomorrow, which agents are told to trust beside the hub's own")
	f.StringArrayVar(sniCertKeys, "tls-sni-cert-key", nil,
		"serving certificate and key, as cert.pem,key.pem, for clients that ask for a name in the certificate; may be repeated. "+
			"Others get the hub's own certificate")
	f.StringSliceVar(&o.EtcdServers, "etcd-servers", nil,
		"URLs of an external etcd cluster, which several hubs may share that have the same --replica-key-file, "+
			"or the same pki folder in their data directories; without it, etcd runs inside the hub")
	f.StringVar(&o.EtcdCAFile, "etcd-cafile", "", "certificate authority of --etcd-servers")
	f.StringVar(&o.EtcdCertFile, "etcd-certfile", "", "client certificate for --etcd-servers")
	f.StringVar(&o.EtcdKeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	f.StringVar(&o.ReplicaKeyFile, "replica-key-file", "",
		"file with a secret of 32 bytes or more, the same for all hubs on --etcd-servers: by it they share their certificate authority "+
			"and service-account key, sealed in etcd. Make it with openssl rand -hex 32")
	f.BoolVar(&o.ReplaceLostKeys, "replace-lost-keys", false,
		"start though the certificate authority or the service-account key that the store was made with is lost: "+
			"every cluster has to join again then, every kubeconfig and token of before is void, "+
			"and what was encrypted is deleted")
	f.BoolVar(&o.Profiling, "profiling", false,
		"serve profiles of the hub at /debug/pprof/, to administrators")
	f.StringSliceVar(&o.AutoApprove, "auto-approve", nil,
		"users whose certificate requests are approved; new clusters are then accepted by themselves, once")
	f.StringSliceVar(cleaned, "gc-resource-list", nil,
		"what is deleted with a cluster from its namespace, one kind after the other, each as group/version/resource "+
			"(default "+gc.FormatResources(gc.DefaultResources())+")")
	f.StringToStringVar(&o.Labels, "labels", nil,
		"labels for every namespace and RBAC object that the hub makes for a cluster, as key=value,key=value")
	f.BoolVar(&o.ImportAllowLoopback, "cluster-import-allow-loopback", false,
		"let the kubeconfigs of ClusterImports lead to the hub's own machine, with --feature-gates ClusterImport=true; "+
			"for fleets on one machine, as it lets their authors reach what listens there")
	f.IntVar(&o.ManifestLimit, "manifest-limit", work.DefaultManifestLimit, "greatest total size of a work's manifests, in bytes")
}

// securityFlags adds the flags that say who else knows users, what is noted of their
// requests, and what is encrypted.
func securityFlags(f *pflag.FlagSet, o *hub.Options) {
	f.StringVar(&o.Authentication.ConfigFile, "authentication-config", "",
		"file with an AuthenticationConfiguration (apiserver.config.k8s.io/v1): the OpenID Connect issuers whose "+
			"users the hub knows. It is read again when it changes. Names and "+
			"groups that begin with system: are refused")
	f.StringVar(&o.Authentication.WebhookConfigFile, "authentication-token-webhook-config-file", "",
		"kubeconfig of a server that is asked, with TokenReviews, about tokens that nobody else knows")
	f.StringVar(&o.Audit.LogPath, "audit-log-path", "",
		"file for the audit log: who has changed what; - is the standard output, off writes none "+
			"(default audit/audit.log in the data directory)")
	f.IntVar(&o.Audit.MaxSize, "audit-log-maxsize", 50,
		"size in MB at which the audit log is compressed and a new one begun")
	f.IntVar(&o.Audit.MaxBackups, "audit-log-maxbackup", 10, "how many earlier audit logs stay; 0 is all")
	f.IntVar(&o.Audit.MaxAge, "audit-log-maxage", 0, "for how many days earlier audit logs stay; 0 is no limit")
	f.StringVar(&o.Audit.PolicyFile, "audit-policy-file", "",
		"file with a Policy (audit.k8s.io/v1): what is noted. Without it, changes by users and reads of Secrets, "+
			"without their content; not what the hub and agents do")
	f.StringVar(&o.Audit.WebhookConfigFile, "audit-webhook-config-file", "",
		"kubeconfig of a server that gets the audit events, too")
	f.StringVar(&o.TracingConfigFile, "tracing-config-file", "",
		"file with a TracingConfiguration (apiserver.config.k8s.io/v1): the OpenTelemetry collector that gets spans, "+
			"and of how many requests")
	f.StringVar(&o.MinTLSVersion, "tls-min-version", "VersionTLS13",
		"oldest version of TLS that clients may use: VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&o.EncryptedResources, "encrypted-resources", []string{"secrets"},
		"what the store keeps encrypted, under a key made of pki/service-account.key, such as "+
			"secrets,manifestworks.work.open-cluster-management.io; empty for nothing. The same for all replicas")
}

// webPageFlags adds the flags of the page at /ui/.
func webPageFlags(f *pflag.FlagSet, o *hub.Options, provider *page.OIDC) {
	f.BoolVar(&o.WebPage, "web-page", true,
		"serve a page about the fleet at /ui/, on which nothing can be changed, to users who may read it")
	f.StringVar(&provider.IssuerURL, "web-page-oidc-issuer-url", "",
		"OpenID Connect provider by which users log in to the page, one of the issuers in --authentication-config; "+
			"without it they paste a token or have a client certificate")
	f.StringVar(&provider.ClientID, "web-page-oidc-client-id", "",
		"client of --web-page-oidc-issuer-url that the page is; its redirect URI is the hub's URL with "+
			page.Path+"oidc/callback")
	f.StringVar(&provider.ClientSecretFile, "web-page-oidc-client-secret-file", "",
		"file with the secret of --web-page-oidc-client-id, if it has one")
	f.StringVar(&provider.CAFile, "web-page-oidc-ca-file", "",
		"authorities of the provider's certificate, in PEM, instead of the system's")
	f.StringSliceVar(&provider.Scopes, "web-page-oidc-scopes", []string{"openid", "email"},
		"scopes to ask the provider for")
}

// given is the first flag with this beginning that was given; "" when there is none.
func given(f *pflag.FlagSet, beginning string) (name string) {
	f.Visit(func(x *pflag.Flag) {
		if name == "" && strings.HasPrefix(x.Name, beginning) {
			name = x.Name
		}
	})
	return name
}

// newHubKubeconfigCommand prints a file of the data directory, for images that have no
// other program to read it with.
func newHubKubeconfigCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig of a hub",
		Long: `Prints the administrator's kubeconfig of a hub that has run: the file
admin.kubeconfig in its data directory. Run it on the hub's machine, or in its pod.
Whoever has the kubeconfig may do everything on the hub.`,
		Example: `  kubectl exec deploy/muster-hub -- /muster hub kubeconfig --data-dir /data/hub > hub.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			content, err := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("--data-dir %q has no admin.kubeconfig: give the data directory of a hub, "+
					"which writes the file when it starts", dir)
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(content)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "folder that keeps the hub's state (required)")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}

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
		Use:   use,
		Short: short,
		Long: short + ". The hub must not run meanwhile. Replicas with --replica-key-file follow when " +
			"they start after it; others get a copy of the folder pki.",
		Example: "  muster hub ca " + use + " --data-dir /var/lib/muster",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := datadir.Open(folder, "muster "+version.Version())
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
