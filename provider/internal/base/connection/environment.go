package connection

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Which source counts. Credentials go to the server that they are meant for: a
// server and the credentials for it come from one source, or from the
// configuration, which a person has put together.
//
//  1. The configuration.
//  2. MUSTER_* variables. They add to a host of the configuration; to a kubeconfig
//     of the configuration they add neither a server nor credentials.
//  3. KUBE_* variables, those of the Kubernetes provider: all of them or none, and
//     only where nothing above names a server.
//  4. KUBECONFIG, likewise.

// WithEnvironment is the connection with what the environment adds to the
// configuration. diags gets an error about variables that can't be followed.
func (m Model) WithEnvironment(getenv func(string) string, diags *diag.Diagnostics) kube.Connection {
	if attribute.Values(m).Bool("in_cluster") {
		return m.Connection()
	}
	own := variables{getenv: getenv, of: func(s setting) string { return s.muster }}
	theirs := variables{getenv: getenv, of: func(s setting) string { return s.kube }}
	m, origin := maps.Clone(m), ""
	switch named := m.namesServer(); {
	case m.mayName(kubeconfigNames()):
		own.fill(m, diags, choice, route)
	case named:
		own.fill(m, diags, trust, route, credentials)
	case own.names(server):
		origin = own.fill(m, diags, server, choice, trust, route, credentials)
	case own.names(trust, credentials):
		set := own.set(trust, credentials)
		diags.AddError("The environment does not say which server the credentials are for",
			fmt.Sprintf("%s set, and neither the provider \"muster\" block nor MUSTER_HOST nor MUSTER_KUBECONFIG "+
				"says where the hub is. Set host in the provider block, or one of these variables.", are(set)))
	case theirs.names(server):
		own.fill(m, diags, choice, route)
		origin = theirs.fill(m, diags, server, choice, trust, route, credentials)
	default:
		own.fill(m, diags, choice, route)
		if value := getenv("KUBECONFIG"); value != "" {
			m["kubeconfig_path"], origin = types.StringValue(value), "KUBECONFIG"
		}
	}
	c := m.Connection()
	if origin != "" {
		c.Origin = "the environment variable " + origin
	}
	return c
}

// are begins a sentence about variables.
func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return joined(names) + " are"
}

// variables is one family of environment variables.
type variables struct {
	getenv func(string) string
	of     func(setting) string
}

// set are the variables for these parts that have a value.
func (v variables) set(parts ...part) []string {
	var names []string
	for _, s := range settings() {
		if name := v.of(s); name != "" && slices.Contains(parts, s.part) && v.getenv(name) != "" && !v.off(s) {
			names = append(names, name)
		}
	}
	return names
}

// off reports whether the variable of a switch says no.
func (v variables) off(s setting) bool {
	on, err := strconv.ParseBool(v.getenv(v.of(s)))
	return s.flag != nil && err == nil && !on
}

func (v variables) names(parts ...part) bool { return len(v.set(parts...)) > 0 }

// fill takes over what the model leaves open of these parts, and returns the
// variable that names a kubeconfig, if one does.
func (v variables) fill(m Model, diags *diag.Diagnostics, parts ...part) (origin string) {
	if servers := v.set(server); slices.Contains(parts, server) && len(servers) > 1 {
		diags.AddError("The environment names several servers",
			fmt.Sprintf("%s set, so it is not clear which server the credentials are for. Unset all but one, or say "+
				"in the provider \"muster\" block where the hub is.", are(servers)))
		return ""
	}
	if m.hasCredentials() {
		parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p == credentials })
	}
	for _, s := range settings() {
		name := v.of(s)
		value := ""
		if name != "" {
			value = v.getenv(name)
		}
		if value == "" || !slices.Contains(parts, s.part) {
			continue
		}
		if s.part == server && s.name != "host" {
			origin = name
		}
		var given attr.Value = types.StringValue(value)
		switch {
		case s.flag != nil:
			on, err := strconv.ParseBool(value)
			if err != nil {
				diags.AddError("Invalid environment variable",
					fmt.Sprintf("%s is %q, and has to be true or false.", name, value))
			}
			given = types.BoolValue(on)
		case s.object != nil:
			given = attribute.StringListValue(filepath.SplitList(value))
		}
		// The configuration may say it, by this name or the other one.
		if !attribute.Values(m).IsSet(s.name) && (s.same == "" || m.isEmpty(s.same)) {
			m[s.name] = given
		}
	}
	return origin
}
