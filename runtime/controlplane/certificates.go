package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/pki"
)

const (
	servingLifetime = 90 * 24 * time.Hour
	adminLifetime   = 365 * 24 * time.Hour
)

// expiry is for alarms: what is renewed by itself may fail to be.
var expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "muster_certificate_expiry_timestamp_seconds",
	Help: "When a certificate of the hub expires, in seconds since 1970: of its authority (ca), " +
		"and the one that it shows to clients (serving).",
}, []string{"certificate"})

func init() { metrics.Registry.MustRegister(expiry) }

// LostKeysError says that a store is there and keys that it was made with are
// not. New ones would lock out all that trust the old ones, or hold a certificate
// or token by them.
type LostKeysError struct {
	// Files are the missing ones, Store the folder of what was made with them.
	Files []string
	Store string
}

func (e *LostKeysError) Error() string {
	return fmt.Sprintf("%s missing, and the store in %s was made with what was there: put it back from a backup", strings.Join(e.Files, " and "), e.Store)
}

// checkKeys fails when keys are missing beside a store of this process. A first
// start makes the keys before the store, so no crash leaves it so.
func (o *Options) checkKeys(ctx context.Context) error {
	if info, err := os.Stat(o.Dir.Path("etcd", "member", "snap", "db")); len(o.EtcdServers) > 0 || err != nil || info.Size() == 0 {
		return nil //nolint:nilerr // without a store there is nothing to be missing
	}
	absent := func(name string) bool {
		_, err := os.Stat(o.Dir.Path("pki", name))
		return errors.Is(err, os.ErrNotExist)
	}
	var missing []string
	if absent("ca.crt") && absent("ca.key") { // one of the two alone is refused where they are read
		missing = append(missing, o.Dir.Path("pki", "ca.crt"), o.Dir.Path("pki", "ca.key"))
	}
	if absent("service-account.key") {
		missing = append(missing, o.Dir.Path("pki", "service-account.key"))
	}
	if len(missing) == 0 {
		return nil
	}
	if o.ReplaceLostKeys {
		logging.FromContext(ctx).Warn("making new keys in the place of lost ones: what trusts those has to be given the new ones", "files", missing)
		return nil
	}
	return &LostKeysError{Files: missing, Store: o.Dir.Path("etcd")}
}

// certificateFiles are the files that the API server reads.
type certificateFiles struct {
	caCert, servingCert, servingKey, serviceAccountKey string
}

// issueCertificates makes what is missing and re-issues what is short-lived,
// now and again before it ends.
func (s *Server) issueCertificates(ctx context.Context, o Options) (certificateFiles, error) {
	files := certificateFiles{
		servingCert:       o.Dir.Path("pki", "serving.crt"),
		servingKey:        o.Dir.Path("pki", "serving.key"),
		serviceAccountKey: o.Dir.Path("pki", pki.ServiceAccountKey),
	}
	if err := os.MkdirAll(o.Dir.Path("pki"), 0o700); err != nil {
		return files, fmt.Errorf("make the folder for certificates: %w", err)
	}
	if err := datadir.Private(o.Dir.Path("pki"), o.Dir.Path("pki")); err != nil {
		return files, err
	}
	if err := o.shareKeys(ctx); err != nil {
		return files, err
	}
	if err := o.checkKeys(ctx); err != nil {
		return files, err
	}
	// Clients verify the authority and the serving certificate, by the real time.
	// The server itself verifies the administrator's, by o.Clock.
	realClock := clock.RealClock{}
	ca, err := pki.LoadOrCreateAuthority(o.Dir.Path("pki"), o.Name+"-ca", realClock.Now())
	if err != nil {
		return files, err
	}
	files.caCert = o.Dir.Path("pki", "ca-bundle.crt")
	if err := atomicfile.Write(files.caCert, ca.BundlePEM(), 0o644); err != nil {
		return files, err
	}
	expiry.WithLabelValues("ca").Set(float64(ca.Expires().Unix()))
	s.CAData, s.CAFile, s.CAKeyFile = ca.BundlePEM(), ca.CertFile, ca.KeyFile
	s.serviceAccountKey = files.serviceAccountKey
	if s.ServiceAccountKeyHash, err = pki.LoadOrCreateKey(files.serviceAccountKey); err != nil {
		return files, err
	}
	for what, c := range map[string]struct {
		issue    func(time.Time) error
		lifetime time.Duration
		clock    clock.Clock
	}{
		"serving": {o.servingIssuer(ca, files), servingLifetime, realClock},
		"admin":   {s.adminIssuer(o, ca), adminLifetime, o.Clock},
	} {
		if err := c.issue(c.clock.Now()); err != nil {
			return files, fmt.Errorf("issue the %s certificate: %w", what, err)
		}
		go pki.Rotate(ctx, c.clock, c.lifetime, what, c.issue)
	}
	return files, nil
}

// shareKeys gives this replica the authority and key of the others, if replicas share them
// through the store.
func (o *Options) shareKeys(ctx context.Context) error {
	if o.ReplicaKeyFile == "" {
		return nil
	}
	secret, err := os.ReadFile(o.ReplicaKeyFile)
	if err != nil {
		return fmt.Errorf("read --replica-key-file: %w", err)
	}
	if secret = bytes.TrimSpace(secret); len(secret) < pki.MinSecret {
		return fmt.Errorf("--replica-key-file %q holds %d bytes, and has to hold %d or more that nobody can guess: "+
			"make it with openssl rand -hex 32, and give the same file to all replicas",
			o.ReplicaKeyFile, len(secret), pki.MinSecret)
	}
	client, err := newStoreClient(*o, o.EtcdServers)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	dir, at := o.Dir.Path("pki"), strings.Join(o.EtcdServers, ",")
	switch err = pki.Share(ctx, dir, o.Name+"-ca", secret, sharedKeys{client}, time.Now()); {
	case errors.Is(err, pki.ErrWrongSecret):
		return fmt.Errorf("--replica-key-file %q: %w at %s: give the file that the other replicas have. "+
			"If that is lost, delete the key %s in etcd, and start a replica first that has the keys "+
			"in its folder pki, with a new file", o.ReplicaKeyFile, err, at, replicaKeys)
	case errors.Is(err, pki.ErrOtherKeys):
		return fmt.Errorf("%s: %w at %s: start with an empty data directory, or give the store that this one is of",
			dir, err, at)
	case errors.Is(err, pki.ErrNotShared):
		return fmt.Errorf("--replica-key-file %q: %w at %s: start a replica first that has them in its folder pki, "+
			"with the same file", o.ReplicaKeyFile, err, at)
	case err != nil:
		return fmt.Errorf("share the keys of replicas: %w", o.explainSilence(err))
	}
	return nil
}

// servingIssuer returns a function that issues the serving certificate and
// writes it to its files.
func (o *Options) servingIssuer(ca *pki.Authority, files certificateFiles) func(now time.Time) error {
	return func(now time.Time) error {
		cert, key, err := ca.Issue(pki.Request{CommonName: o.Name, Hosts: o.servingHosts(), Lifetime: servingLifetime}, now)
		if err != nil {
			return err
		}
		// The server reloads the pair when either file changes and keeps the
		// old pair while the two do not fit.
		if err := atomicfile.Write(files.servingKey, key, 0o600); err != nil {
			return err
		}
		if err := atomicfile.Write(files.servingCert, cert, 0o644); err != nil {
			return err
		}
		expiry.WithLabelValues("serving").Set(float64(now.Add(servingLifetime).Unix()))
		return nil
	}
}

// adminIssuer returns a function that issues the administrator's certificate and
// writes the kubeconfig with it.
func (s *Server) adminIssuer(o Options, ca *pki.Authority) func(now time.Time) error {
	return func(now time.Time) error {
		cert, key, err := ca.Issue(pki.Request{CommonName: "muster-admin", Organizations: []string{"system:masters"}, Lifetime: adminLifetime}, now)
		if err != nil {
			return err
		}
		content, err := kubeconfig.Config{
			Cluster: o.Name, User: "admin", Server: s.URL, CAData: ca.BundlePEM(), CertData: cert, KeyData: key,
		}.YAML()
		if err != nil {
			return err
		}
		return atomicfile.Write(s.Kubeconfig, content, 0o600)
	}
}
