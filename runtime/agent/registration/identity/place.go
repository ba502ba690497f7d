package identity

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
)

// maxSame bounds how many earlier endpoints of a hub are remembered.
const maxSame = 16

// Place is what an agent knows of where its hub is and was, beyond the endpoint
// that it uses. The zero value is that of an agent whose hub publishes nothing
// about it.
type Place struct {
	// HubUID distinguishes the hub from others.
	HubUID string `json:"hubUID,omitempty"`
	// Generation is that of the published endpoints which the agent has followed.
	Generation int64 `json:"generation,omitempty"`
	// Origin is the URL that the agent had of its hub at first. Works are
	// accounted for under it, so that they are the same works after a move.
	Origin string `json:"origin,omitempty"`
	// Same are other endpoints that count as the same hub, the latest last. A
	// bootstrap kubeconfig that leads to one of them is not a reason to register
	// again.
	Same []Endpoint `json:"same,omitempty"`
	// URLs are further ones that the hub has published, to be tried with the
	// authorities of the present endpoint when that is out of reach.
	URLs []string `json:"urls,omitempty"`
	// Fallback is the endpoint before the last move, and FallbackUntil when it
	// ceases to be one.
	Fallback      *Endpoint `json:"fallback,omitempty"`
	FallbackUntil time.Time `json:"fallbackUntil,omitzero"`
	// Hold is for how long the agent stays where it went back to before it tries
	// the published endpoint again, and HoldUntil when that is over.
	Hold      time.Duration `json:"hold,omitempty"`
	HoldUntil time.Time     `json:"holdUntil,omitzero"`
}

func parsePlace(content []byte) Place {
	var p Place
	if len(content) == 0 || json.Unmarshal(content, &p) != nil {
		return Place{} // the agent learns it again
	}
	return p
}

// content is nil for the zero value.
func (p Place) content() ([]byte, error) {
	if p.Equal(Place{}) {
		return nil, nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write down where the hub is: %w", err)
	}
	return content, nil
}

// Equal reports whether both say the same.
func (p Place) Equal(other Place) bool {
	if !p.FallbackUntil.Equal(other.FallbackUntil) || !p.HoldUntil.Equal(other.HoldUntil) {
		return false
	}
	p.FallbackUntil, p.HoldUntil, other.FallbackUntil, other.HoldUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return reflect.DeepEqual(p, other)
}

// WorksHost is the URL under which the works of the hub are accounted for.
func (id Identity) WorksHost() string {
	if id.Place.Origin != "" {
		return id.Place.Origin
	}
	return id.Hub.Server
}

// Differs names the first field in which an endpoint is another one than the
// hub's; it is empty for the hub's endpoint and for those that count as the same
// hub.
func (id Identity) Differs(e Endpoint) string {
	d := id.Hub.difference(e)
	if d != "" && slices.ContainsFunc(id.Place.Same, e.Equal) {
		return ""
	}
	return d
}

// MoveTo is the identity with another endpoint of the same hub. The one so far
// counts as the same hub from then on.
func (id Identity) MoveTo(e Endpoint) Identity {
	moved := id
	if moved.Place.Origin == "" {
		moved.Place.Origin = id.Hub.Server
	}
	same := append(slices.DeleteFunc(slices.Clone(id.Place.Same), id.Hub.Equal), id.Hub)
	moved.Place.Same = same[max(0, len(same)-maxSame):]
	moved.Hub = e
	return moved
}

// Wanted is the endpoint that the agent is to use, by what its hub publishes. It
// is the present one when the agent is where it should be. own says that the
// cluster has a URL that the hub has never published, which the agent keeps.
func Wanted(present Endpoint, published hubinfo.Endpoints) (wanted Endpoint, own bool) {
	wanted = present
	switch urls := published.URLs; {
	case len(urls) == 0 || hubinfo.SameURL(present.Server, urls[0]):
	case hubinfo.ContainsURL(urls, present.Server) || hubinfo.ContainsURL(published.FormerURLs, present.Server):
		wanted.Server = urls[0]
	default:
		own = true
	}
	switch {
	case len(present.CAData) == 0:
		// The owner has left it to the authorities of the system.
	case hubinfo.SameBundle(present.CAData, published.CABundle):
	case own && !hubinfo.ShareCertificate(present.CAData, published.CABundle):
		// Something else stands before the hub there, with an authority of its own.
	default:
		wanted.CAData = published.CABundle
	}
	return wanted, own
}

// Alternatives are where to look for the hub when its present endpoint is out of
// reach. Each of them counts as the same hub already, or is served by the
// authorities that the agent trusts now.
func (id Identity) Alternatives(now time.Time) []Endpoint {
	var found []Endpoint
	for _, u := range id.Place.URLs {
		if !hubinfo.SameURL(u, id.Hub.Server) {
			e := id.Hub
			e.Server = u
			found = append(found, e)
		}
	}
	if f := id.Place.Fallback; f != nil && now.Before(id.Place.FallbackUntil) && !f.Equal(id.Hub) {
		found = append(found, *f)
	}
	return found
}

// SignedByFormer reports whether another authority of a bundle than its first one,
// which signs now, has signed the agent's certificate.
func (id Identity) SignedByFormer(bundle []byte) bool {
	authorities, err := hubinfo.ParseBundle(bundle)
	if err != nil {
		return false
	}
	chain, err := parseChain(id.CertPEM)
	if err != nil || chain[0].CheckSignatureFrom(authorities[0]) == nil {
		return false
	}
	return slices.ContainsFunc(authorities[1:], func(former *x509.Certificate) bool { return chain[0].CheckSignatureFrom(former) == nil })
}
