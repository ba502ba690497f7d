// Package hubinfo names what a hub publishes about itself in the namespace
// kube-public. Every client that reaches the hub may read it.
package hubinfo

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// ClusterInfo is the config map that says where the hub is and how to
	// verify it, as a kubeconfig under the key "kubeconfig".
	ClusterInfo = "cluster-info"

	// Name is the config map that lists what a muster hub can do beyond an
	// upstream one. An upstream hub has none.
	Name = "muster-hub-info"
	// FeaturesKey is its entry with the features, separated by commas.
	FeaturesKey = "features"
	// VersionKey is its entry with the hub's version.
	VersionKey = "version"
	// HubIDKey is its entry with the hub's short name in the subjects of users'
	// certificates, as in package access.
	HubIDKey = "hubID"
)

// BoundBootstrapApproval is the feature of a hub that takes bootstrap tokens
// bound to one cluster and approves the certificate request made with one by
// itself, while the cluster is accepted and has not joined.
const BoundBootstrapApproval = "BoundBootstrapApproval"

// Rejoin is the feature of a hub that lets a cluster which has joined before join
// again with a bound bootstrap token whose Secret says so, once.
const Rejoin = "Rejoin"

// TokenScope is the feature of a hub that labels the clusters created with a
// bootstrap token, counts them, and refuses more than the token allows.
const TokenScope = "TokenScope"

// SpreadPolicy says that a hub spreads clusters as placements ask. It has the name
// of TokenScope on the wire, as every hub with the one has the other.
const SpreadPolicy = TokenScope

// PreferNoSelect is the feature of a hub for whose placements the taint effect of
// that name is a preference. A preview of a placement depends on it.
const PreferNoSelect = "PreferNoSelect"

// FleetSnapshot is the feature of a hub that serves, at SnapshotPath, all that
// placements are decided by.
const FleetSnapshot = "FleetSnapshot"

// SnapshotPath is where a hub with the feature FleetSnapshot serves it.
const SnapshotPath = "/fleet/snapshot"

// StorePath is where a hub answers administrators how full its store is, by a Store.
const StorePath = "/fleet/store"

// Store is how full a hub's store is, in bytes.
type Store struct {
	// InUse is what objects and their recent versions take, File what the store takes
	// on the disk, and Quota how large the file may grow.
	InUse int64 `json:"inUseBytes"`
	File  int64 `json:"fileBytes"`
	Quota int64 `json:"quotaBytes"`
	// Filling is whether so much is in use that clusters and bootstrap tokens can
	// create nothing.
	Filling bool `json:"filling"`
}

// ClusterRegistration is the feature of a hub at which agents can register by a
// client ID, without knowing their cluster's name.
const ClusterRegistration = "ClusterRegistration"

// ClusterImport is the feature of a hub that installs agents through kubeconfigs.
const ClusterImport = "ClusterImport"

// UserAccess is the feature of a hub with logical clouds and access requests.
const UserAccess = "UserAccess"

// Tunnel is the feature of a hub that carries users' connections to clusters that nobody
// else reaches.
const Tunnel = "Tunnel"

// WorkPreview is the feature of a hub on which agents are asked, by WorkPreviews, what a
// work would do in their clusters.
const WorkPreview = "WorkPreview"

// WorkOverride is the feature of a hub on which the works of a replica set may differ from
// cluster to cluster, by WorkOverrides.
const WorkOverride = "WorkOverride"

// EndpointPropagation is the feature of a hub that publishes a new URL to its agents
// and CA.
const EndpointPropagation = "EndpointPropagation"

// AddOnAnnouncement is the feature of a hub that annotates the ManagedCluster of each
// cluster with add-ons, so that an agent without any needs no watch of them.
const AddOnAnnouncement = "AddOnAnnouncement"

// Has reports whether the config map's data lists a feature.
func Has(data map[string]string, feature string) bool {
	return slices.Contains(strings.Split(data[FeaturesKey], ","), feature)
}

const (
	// EndpointsName is the config map in which a hub publishes to its agents where it is
	// from now on, and by which authorities to verify it. An upstream hub has
	// none.
	EndpointsName = "muster-hub-endpoints"

	urlsKey       = "urls"
	formerURLsKey = "formerURLs"
	caKey         = "ca.crt"
	generationKey = "generation"
	hubUIDKey     = "hubUID"

	// maxURLs and maxFormerURLs bound the lists, and maxBundle the certificates.
	maxURLs, maxFormerURLs, maxBundle = 16, 32, 32
)

// Endpoints are where a hub is.
type Endpoints struct {
	// URLs are those of the hub, the one to use first. When there are none,
	// agents keep the URL that they have.
	URLs []string
	// FormerURLs are those that the hub has published before. An agent goes over
	// to another URL only from one that the hub has published, so that one that a
	// cluster's owner has chosen stays.
	FormerURLs []string
	// CABundle has the authorities that the hub is to be verified by, in PEM. The
	// first of them signs the agents' certificates.
	CABundle []byte
	// Generation grows with each change.
	Generation int64
	// HubUID is the UID of the hub's namespace kube-system, by which an agent
	// knows the hub under another URL.
	HubUID string
}

// Data is the content of the config map.
func (e Endpoints) Data() map[string]string {
	return map[string]string{
		urlsKey:       strings.Join(e.URLs, "\n"),
		formerURLsKey: strings.Join(e.FormerURLs, "\n"),
		caKey:         string(e.CABundle),
		generationKey: strconv.FormatInt(e.Generation, 10),
		hubUIDKey:     e.HubUID,
	}
}

// ParseEndpoints reads the content of the config map. It returns an error when
// agents can't go by it.
func ParseEndpoints(data map[string]string) (Endpoints, error) {
	e := Endpoints{
		URLs:       lines(data[urlsKey]),
		FormerURLs: lines(data[formerURLsKey]),
		CABundle:   []byte(data[caKey]),
		HubUID:     strings.TrimSpace(data[hubUIDKey]),
	}
	if e.Generation = GenerationOf(data); e.Generation < 1 {
		return Endpoints{}, fmt.Errorf("its %s %q is not a whole number from 1 on", generationKey, data[generationKey])
	}
	if e.HubUID == "" {
		return Endpoints{}, fmt.Errorf("it has no %s, without which another hub can't be distinguished", hubUIDKey)
	}
	if len(e.URLs) > maxURLs || len(e.FormerURLs) > maxFormerURLs {
		return Endpoints{}, fmt.Errorf("it has %d %s and %d %s, and may have %d and %d",
			len(e.URLs), urlsKey, len(e.FormerURLs), formerURLsKey, maxURLs, maxFormerURLs)
	}
	for _, u := range e.URLs {
		if err := CheckURL(u); err != nil {
			return Endpoints{}, fmt.Errorf("its %s has %w", urlsKey, err)
		}
	}
	if _, err := ParseBundle(e.CABundle); err != nil {
		return Endpoints{}, fmt.Errorf("its %s cannot be used: %w", caKey, err)
	}
	return e, nil
}

// GenerationOf is the generation in the content of the config map; 0 when that has
// none.
func GenerationOf(data map[string]string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(data[generationKey]), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Next is what a hub publishes, given what it has published before, whose zero
// value is nothing. usedURL is the URL that it gave to new agents before.
func Next(before Endpoints, urls []string, bundle []byte, usedURL string) Endpoints {
	next := Endpoints{URLs: urls, CABundle: bundle, Generation: before.Generation, HubUID: before.HubUID}
	former := slices.Concat(before.FormerURLs, before.URLs)
	if len(urls) > 0 && usedURL != "" {
		former = append(former, usedURL)
	}
	for _, u := range former {
		if !ContainsURL(urls, u) && !ContainsURL(next.FormerURLs, u) {
			next.FormerURLs = append(next.FormerURLs, u)
		}
	}
	if n := len(next.FormerURLs); n > maxFormerURLs {
		next.FormerURLs = next.FormerURLs[n-maxFormerURLs:]
	}
	same := slices.Equal(next.URLs, before.URLs) && slices.Equal(next.FormerURLs, before.FormerURLs) &&
		bytes.Equal(bytes.TrimSpace(next.CABundle), bytes.TrimSpace(before.CABundle))
	if !same || next.Generation < 1 {
		next.Generation++
	}
	return next
}

// CheckURL says what is wrong with the URL of a hub, or nil.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q, which is not the URL of a hub: give one like https://hub.example.org:6443", text)
	}
	return nil
}

// ContainsURL reports whether a list has a URL, however that is written.
func ContainsURL(list []string, u string) bool {
	return slices.ContainsFunc(list, func(other string) bool { return SameURL(other, u) })
}

// SameURL reports whether two URLs lead to the same server by the same name.
func SameURL(a, b string) bool { return a == b || normal(a) == normal(b) }

func normal(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port + strings.TrimRight(u.Path, "/")
}

// ParseBundle reads the certificates of a PEM bundle. It has to have at least one.
func ParseBundle(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a PEM block of type %s: only certificates belong there", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a certificate in it: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	switch {
	case len(certificates) == 0:
		return nil, errors.New("it has no certificate in PEM form")
	case len(certificates) > maxBundle:
		return nil, fmt.Errorf("it has %d certificates, and %d is the most", len(certificates), maxBundle)
	}
	return certificates, nil
}

// SameBundle reports whether two PEM bundles have the same certificates, in any
// order.
func SameBundle(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	inA, errA := ParseBundle(a)
	inB, errB := ParseBundle(b)
	return errA == nil && errB == nil && containsAll(inA, inB) && containsAll(inB, inA)
}

// ShareCertificate reports whether two PEM bundles have a certificate in common.
func ShareCertificate(a, b []byte) bool {
	inA, errA := ParseBundle(a)
	inB, errB := ParseBundle(b)
	return errA == nil && errB == nil && slices.ContainsFunc(inA, func(c *x509.Certificate) bool { return slices.ContainsFunc(inB, c.Equal) })
}

func containsAll(all, some []*x509.Certificate) bool {
	return !slices.ContainsFunc(some, func(c *x509.Certificate) bool { return !slices.ContainsFunc(all, c.Equal) })
}

func lines(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found
}
