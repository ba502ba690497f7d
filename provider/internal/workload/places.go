package workload

import (
	"context"
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Places tell where in the inputs each object is, by its key: manifests[3],
// document 2. Nil knows no place.
type Places map[string]string

// Places are those of the objects that are known.
func (c Content) Places() Places {
	if c.imported() {
		c.Manifests = None().Manifests
	}
	k := c.read(discreet)
	places := Places{}
	for i, object := range k.found {
		places[object.Key()] = k.places[i]
	}
	return places
}

// PlacesWith are Places with the write-only manifests of a configuration.
func (c Content) PlacesWith(ctx context.Context, config crud.Source) Places {
	return c.with(ctx, config).Places()
}

// place is where an object of a text is. The number of its document is told where
// there are several.
func place(attr string, i int, object Object) string {
	if object.Document == 0 {
		return fmt.Sprintf("%s[%d]", attr, i)
	}
	return fmt.Sprintf("%s[%d], document %d", attr, i, object.Document)
}

// Name is an object that an agent reports on, with its place: Deployment shop/web
// (objects[1]).
func (p Places) Name(m workv1.ManifestResourceMeta) string {
	name := m.Kind + " " + Qualified(m.Namespace, m.Name)
	if place := p[keyOf(m)]; place != "" {
		return name + " (" + place + ")"
	}
	return name
}

// keyOf is the key of an object that an agent reports on.
func keyOf(m workv1.ManifestResourceMeta) string {
	version := m.Version
	if m.Group != "" {
		version = m.Group + "/" + version
	}
	return Object{APIVersion: version, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}.Key()
}

// Qualified is namespace/name, or the name where there is no namespace.
func Qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
