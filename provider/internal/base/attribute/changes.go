package attribute

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Changes are the names of the attributes that differ between two values of a
// resource, such as its plan and its state. Where one of them is null they are all
// different.
type Changes struct {
	all   bool
	names []string
}

// ChangesBetween compares two values of a resource.
func ChangesBetween(a, b tftypes.Value) Changes {
	x, y := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	if a.IsNull() || b.IsNull() || a.As(&x) != nil || b.As(&y) != nil {
		return Changes{all: true}
	}
	var c Changes
	for name, value := range x {
		if other, ok := y[name]; !ok || !value.Equal(other) {
			c.names = append(c.names, name)
		}
	}
	return c
}

// In reports whether one of these attributes differs.
func (c Changes) In(names ...string) bool {
	return c.all || slices.ContainsFunc(c.names, func(name string) bool { return slices.Contains(names, name) })
}

// Beyond reports whether an attribute differs that is not one of these.
func (c Changes) Beyond(names ...string) bool {
	return c.all || slices.ContainsFunc(c.names, func(name string) bool { return !slices.Contains(names, name) })
}
