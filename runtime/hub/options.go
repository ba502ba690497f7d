package hub

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/backup"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/budget"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/clusterimport"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet/clusterset"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/page"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/tunnel"
	"github.com/muster-fleet/terraform-provider-muster/runtime/scheduling"
)

// Options say what hub to run.
type Options struct {
	// DataDir keeps all state. It is made when it does not exist.
	DataDir string
	// BindAddress is the address to listen on; 127.0.0.1 by default.
	BindAddress net.IP
	// SecurePort is the port to listen on; 0 takes a free one.
	SecurePort int
	// ExternalURL is where agents and users reach the hub, when that is not the
	// address that it listens on.
	ExternalURL string
	// AdditionalExternalURLs are further URLs of the hub, in the order of preference,
	// such as the one before while agents go over to ExternalURL.
	AdditionalExternalURLs []string
	// NamedCertificates are served in the place of the hub's own to clients that
	// ask for their names.
	NamedCertificates []controlplane.NamedCertificate
	// ExternalCAFiles are further authorities by which clients verify the hub, in
	// PEM: those of NamedCertificates, of today or tomorrow.
	ExternalCAFiles []string

	// EtcdServers are the URLs of an external etcd cluster that several replicas
	// of the hub may share. When there are none, etcd runs in this process.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are for TLS to EtcdServers.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// ReplicaKeyFile names a file with a secret of 32 bytes or more, the same for all
	// replicas, by which they share their certificate authority and service-account key
	// through EtcdServers. Without it, each needs a copy of the first one's folder pki.
	ReplicaKeyFile string

	// Backups are made while the hub runs; nil makes none. The store of EtcdServers is
	// backed up where that runs.
	Backups *backup.Schedule

	// Authentication says who else knows users of the hub.
	Authentication controlplane.Authentication
	// WebPage serves the page at /ui/ (--web-page). WebPageOIDC, which may be nil, is the
	// provider by which users log in there (--web-page-oidc-*), beside their tokens.
	WebPage     bool
	WebPageOIDC *page.OIDC
	// Audit says what is noted of users' requests; nothing by default.
	Audit controlplane.Audit
	// TracingConfigFile says where spans of requests go (--tracing-config-file); without it
	// there are none.
	TracingConfigFile string
	// MinTLSVersion is the oldest version of TLS that clients may use (--tls-min-version);
	// VersionTLS13 by default.
	MinTLSVersion string
	// EncryptedResources are what the store keeps encrypted (--encrypted-resources), as
	// secrets or manifestworks.work.open-cluster-management.io; nothing by default.
	EncryptedResources []string

	// ReplaceLostKeys makes the hub start with keys other than those that its
	// store was made with (--replace-lost-keys), as after their loss.
	ReplaceLostKeys bool

	// Profiling serves profiles of the process at /debug/pprof/ (--profiling), to those
	// who may read that path: administrators, by default.
	Profiling bool

	// AutoApprove lists users whose clusters join without a human: each new
	// cluster is accepted once, and their certificate requests are approved. It
	// turns on the gate features.ManagedClusterAutoApproval.
	AutoApprove []string
	// CleanedResources are deleted with a cluster from its namespace, one kind
	// after the other (--gc-resource-list); gc.DefaultResources by default.
	CleanedResources []schema.GroupVersionResource
	// ManifestLimit is the greatest total size of a work's manifests, in bytes
	// (--manifest-limit); work.DefaultManifestLimit by default.
	ManifestLimit int
	// Labels are put on every namespace and RBAC object that the hub makes for a
	// cluster.
	Labels map[string]string
	// ImportAllowLoopback lets the kubeconfigs of ClusterImports lead to the hub's own
	// machine (--cluster-import-allow-loopback), for fleets on one machine.
	ImportAllowLoopback bool
	// Features are the hub's feature gates; features.NewHub by default.
	Features featuregate.FeatureGate

	// ExternalSigner leaves the signing of approved certificate requests to an
	// external signer. It needs the authority in the data directory's folder pki, as
	// the hub accepts no other certificates.
	ExternalSigner bool

	// Budgets are what clusters, tokens and users may make the hub keep;
	// budget.Default by default.
	Budgets *budget.Limits
	budgets *budget.Budgets

	// kubeconfigs answers requests for kubeconfigs with keys that the hub has made.
	kubeconfigs *kubeconfigs
	// Tunnels are the limits of tunnels to clusters; tunnel.Default by default.
	Tunnels *tunnel.Limits
	tunnels *tunnels
	// replica is the name of this hub among those of EtcdServers; empty without.
	replica string

	// front is what stands before the page; nil when there is none.
	front *page.Front

	// members counts the members of cluster sets.
	members *clusterset.Members
	// firstAddOns are the statuses of the add-ons that are being installed.
	firstAddOns *addoncontrollers.FirstStatuses

	// Clock is the real one by default. Kubernetes itself, as for the expiry of
	// tokens, always uses the real one.
	Clock clock.WithTicker
	// CaughtUp is called once the controllers have seen all objects, which can be long
	// after the hub is ready, or take part in the election of the leader. nil is for none.
	CaughtUp func()
	// Log is where the controllers log.
	Log logr.Logger
}

// complete sets defaults and refuses what contradicts itself.
func (o *Options) complete() error {
	o.kubeconfigs, o.members = &kubeconfigs{}, clusterset.NewMembers()
	o.tunnels = newTunnels()
	if o.Tunnels == nil {
		limits := tunnel.Default()
		o.Tunnels = &limits
	}
	if len(o.EtcdServers) > 0 {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name this replica: %w", err)
		}
		// Two containers may have the same host name and the same process id.
		o.replica = fmt.Sprintf("%s_%s", host, uuid.NewUUID())
	}
	o.firstAddOns = &addoncontrollers.FirstStatuses{}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Budgets == nil {
		limits := budget.Default()
		o.Budgets = &limits
	}
	if len(o.CleanedResources) == 0 {
		o.CleanedResources = gc.DefaultResources()
	}
	if o.ManifestLimit == 0 {
		o.ManifestLimit = work.DefaultManifestLimit
	}
	if o.ManifestLimit < 0 {
		return fmt.Errorf("--manifest-limit %d is negative: give the greatest size of a work's manifests in bytes, or leave it out for %d", o.ManifestLimit, work.DefaultManifestLimit)
	}
	if o.Features == nil {
		o.Features = features.NewHub()
	}
	if o.Backups != nil {
		if len(o.EtcdServers) > 0 {
			return errors.New("--backup-dir is for the store in the data directory: back up that of --etcd-servers " +
				"with etcdctl snapshot save, and keep the file of --replica-key-file")
		}
		if err := o.Backups.Validate(o.DataDir); err != nil {
			return err
		}
	}
	if err := features.Check(o.Features); err != nil {
		return err
	}
	if err := o.validateWebPage(); err != nil {
		return err
	}
	return errors.Join(o.validateLabels(), o.validateEndpoints(), o.validateEncrypted())
}

// validateWebPage checks how users log in to the page.
func (o *Options) validateWebPage() error {
	switch {
	case o.WebPageOIDC == nil:
		return nil
	case !o.WebPage:
		return errors.New("--web-page-oidc-issuer-url is given with --web-page=false: leave one of them out")
	case o.Authentication == (controlplane.Authentication{}):
		return errors.New("--web-page-oidc-issuer-url is given without --authentication-config, by which the hub would " +
			"know the provider's users: give both")
	}
	return o.WebPageOIDC.Validate()
}

// validateEncrypted checks that what is to be encrypted is something that a hub keeps.
func (o *Options) validateEncrypted() error {
	if len(o.EncryptedResources) == 0 {
		return nil
	}
	kept := []string{"secrets", "configmaps"}
	served, err := o.definitions()
	if err != nil {
		return err
	}
	for _, d := range served {
		kept = append(kept, d.Name)
	}
	for _, name := range o.EncryptedResources {
		if !slices.Contains(kept, name) {
			return fmt.Errorf("--encrypted-resources has %q, which is no resource that this hub keeps: use some of %s",
				name, strings.Join(kept, ", "))
		}
	}
	return nil
}

// encrypted are the resources that the store keeps encrypted.
func (o *Options) encrypted() []schema.GroupResource {
	var all []schema.GroupResource
	for _, name := range o.EncryptedResources {
		all = append(all, schema.ParseGroupResource(name))
	}
	return all
}

// scheduling is how placements are scheduled.
func (o *Options) scheduling() scheduling.Options {
	return scheduling.Options{PreferNoSelect: o.Features.Enabled(features.PreferNoSelect),
		Expressions: scheduling.NewExpressions()}
}

// controllers are the options of the controllers. hubCA signs the certificates of
// agents.
func (o *Options) controllers(hubCA []byte) controllers.Options {
	return controllers.Options{
		Clock:            o.Clock,
		Features:         o.Features,
		Scheduling:       o.scheduling(),
		Members:          o.members,
		FirstAddOns:      o.firstAddOns,
		Labels:           o.Labels,
		AcceptNew:        len(o.AutoApprove) > 0 || o.Features.Enabled(features.ManagedClusterAutoApproval),
		ApprovedUsers:    o.AutoApprove,
		CleanedResources: o.CleanedResources,
		ManifestLimit:    o.ManifestLimit,
		Imports:          clusterimport.Options{HubCA: hubCA, AllowLoopback: o.ImportAllowLoopback},
	}
}

// validateLabels checks the labels for all objects of clusters.
func (o *Options) validateLabels() error {
	var problems []error
	for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
		v := o.Labels[k]
		switch bad := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); {
		case k == cluster.NameLabel || k == cluster.AddOnNameLabel:
			problems = append(problems, fmt.Errorf("--labels has %s, by which the hub finds the objects of a cluster: choose another key", k))
		case len(bad) > 0:
			problems = append(problems, fmt.Errorf("--labels has %s=%s, which is not a label: %s", k, v, strings.Join(bad, "; ")))
		}
	}
	return errors.Join(problems...)
}

// lostForGood is the remedy for keys that no backup has.
const lostForGood = "if it is lost for good, start the hub once with --replace-lost-keys: " +
	"every cluster has to join again then, every kubeconfig and token of before is void, and what was encrypted is gone"

// explainKeys adds the remedy to the error of a hub whose keys are not those of
// its store.
func (o *Options) explainKeys(err error) error {
	folder := filepath.Join(o.DataDir, "pki")
	if len(o.EtcdServers) > 0 {
		return fmt.Errorf("share %s: %w: give all hubs the same --replica-key-file, the first one first, "+
			"or copy the folder pki of its data directory to %s", strings.Join(o.EtcdServers, ","), err, folder)
	}
	return fmt.Errorf("data directory %q: %w: put the folder %s back from the backup that the store is of; %s", o.DataDir, err, folder, lostForGood)
}

// validateEndpoints checks what agents learn about where the hub is.
func (o *Options) validateEndpoints() error {
	var problems []error
	if len(o.AdditionalExternalURLs) > 0 && o.ExternalURL == "" {
		problems = append(problems, errors.New("--additional-external-urls is given without --external-url, which is the one that agents use first: give both"))
	}
	for _, c := range o.NamedCertificates {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			problems = append(problems, fmt.Errorf("--tls-sni-cert-key %s,%s: %w: give a certificate with its chain and the key of it, both in PEM", c.CertFile, c.KeyFile, err))
		}
	}
	if _, err := o.externalCAs(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// externalCAs are the authorities of o.ExternalCAFiles.
func (o *Options) externalCAs() ([]byte, error) {
	var all []byte
	for _, file := range o.ExternalCAFiles {
		bundle, err := os.ReadFile(file)
		if err == nil {
			_, err = hubinfo.ParseBundle(bundle)
		}
		if err != nil {
			return nil, fmt.Errorf("--external-ca-files %s: %w: give a file with certificates of authorities, in PEM", file, err)
		}
		all = append(append(all, bytes.TrimSpace(bundle)...), '\n')
	}
	return all, nil
}

// externalURLs are those that agents are to use, the first one before the others.
func (o *Options) externalURLs() []string {
	if o.ExternalURL == "" {
		return nil
	}
	urls := []string{o.ExternalURL}
	for _, u := range o.AdditionalExternalURLs {
		if !hubinfo.ContainsURL(urls, u) {
			urls = append(urls, u)
		}
	}
	return urls
}
