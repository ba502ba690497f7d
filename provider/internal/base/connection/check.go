package connection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
)

// problem is that of attributes which do not go together.
type problem struct{ attribute, summary, detail string }

// Check adds an error for each pair of attributes of the provider block that do
// not go together.
func (m Model) Check(diags *diag.Diagnostics) {
	for _, problem := range m.problems(false) {
		diags.AddAttributeError(path.Root(problem.attribute), problem.summary, problem.detail)
	}
}

// Validate is the first error of a connection that no schema has checked.
func (m Model) Validate(ctx context.Context) error {
	if err := check(ctx, path.Empty(), table(false).Attributes(), attribute.Values(m)); err != nil {
		return err
	}
	for _, problem := range m.problems(true) {
		return errors.New(problem.detail)
	}
	return nil
}

// check is the first error of texts that are missing or can't be valid.
func check(ctx context.Context, at path.Path, attributes map[string]schema.Attribute, values attribute.Values) error {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		switch a := attributes[name].(type) {
		case schema.SingleNestedAttribute:
			if object, ok := values[name].(types.Object); ok && !object.IsNull() {
				if err := check(ctx, at.AtName(name), a.Attributes, object.Attributes()); err != nil {
					return err
				}
			}
		case schema.StringAttribute:
			text, _ := values[name].(types.String)
			if a.Required && text.IsNull() {
				return fmt.Errorf("%s is missing: %s", at.AtName(name), a.MarkdownDescription)
			}
			for _, v := range a.Validators {
				resp := validator.StringResponse{}
				v.ValidateString(ctx, validator.StringRequest{Path: at.AtName(name), ConfigValue: text}, &resp)
				if resp.Diagnostics.HasError() {
					return fmt.Errorf("%s: %s", at.AtName(name), resp.Diagnostics[0].Detail())
				}
			}
		}
	}
	return nil
}

// problems finds what does not go together. Values that are not known yet are no
// reason for one: they may turn out to be null. alone says that no environment
// variable can name the server.
func (m Model) problems(alone bool) []problem {
	set := m.set()
	var found []problem
	conflict := func(a, b, why string) {
		found = append(found, problem{a, "Attributes that exclude each other", fmt.Sprintf("%s and %s are both set, "+
			"and %s. Remove one of them.", a, b, why)})
	}
	for _, s := range settings() {
		if s.same != "" && s.name < s.same && slices.Contains(set, s.name) && slices.Contains(set, s.same) {
			conflict(s.name, s.same, "are two names for one thing")
		}
		if s.with != "" && slices.Contains(set, s.name) && m.isEmpty(s.with) {
			found = append(found, problem{s.name, "Missing attribute", fmt.Sprintf("%s is set and %s is not. One "+
				"needs the other.", s.name, s.with)})
		}
	}
	for _, pair := range pairs(
		among(set, "kubeconfig_path", "kubeconfig", "config_paths"), among(set, "config_path", "kubeconfig",
			"config_paths"),
	) {
		conflict(pair[0], pair[1], "each is a kubeconfig of its own")
	}
	for _, pair := range pairs(among(set, "token", "client_certificate", "username", "exec")) {
		conflict(pair[0], pair[1], "each is a credential of its own")
	}
	if attribute.Values(m).Bool("insecure") && slices.Contains(set, "cluster_ca_certificate") {
		conflict("insecure", "cluster_ca_certificate", "without verification the certificate is not looked at")
	}
	kubeconfig := among(set, "kubeconfig_path", "config_path", "config_paths", "kubeconfig")
	choices := among(set, "context", "config_context", "config_context_cluster", "config_context_auth_info")
	if attribute.Values(m).Bool("in_cluster") {
		own := slices.Concat(kubeconfig, choices, among(set,
			"host", "cluster_ca_certificate", "insecure", "proxy_url", "token", "client_certificate", "username",
			"exec"))
		for _, name := range own {
			conflict("in_cluster", name, "in_cluster takes the server and the credentials of the pod")
		}
		return found
	}
	if len(kubeconfig) == 0 && len(choices) > 0 && !m.mayName(kubeconfigNames()) && (alone || slices.Contains(set,
		"host")) {
		found = append(found, problem{choices[0], "No kubeconfig to choose in", fmt.Sprintf("%s chooses in a "+
			"kubeconfig, and there is none. Set kubeconfig_path, or remove %[1]s.", choices[0])})
	}
	if alone && !m.namesServer() {
		found = append(found, problem{"host", "No server", "Nothing says where the API server is. Set one of " +
			"kubeconfig_path, config_paths, kubeconfig, host or in_cluster."})
	}
	return found
}

// set are the names of the attributes that have a value which is known. An empty
// text counts as none, and so does a switch that is off.
func (m Model) set() []string {
	var names []string
	for name, value := range m {
		if !m.isEmpty(name) && !value.IsUnknown() && !value.Equal(types.BoolValue(false)) {
			names = append(names, name)
		}
	}
	return attribute.Sorted(names)
}

func kubeconfigNames() []string {
	return []string{"kubeconfig_path", "config_path", "config_paths", "kubeconfig"}
}

// among are those of the names that are in set, in their own order.
func among(set []string, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(set, name) })
}

// pairs are all pairs within each of the lists, once.
func pairs(lists ...[]string) [][2]string {
	var found [][2]string
	for _, list := range lists {
		for i, a := range list {
			for _, b := range list[i+1:] {
				if pair := [2]string{a, b}; !slices.Contains(found, pair) {
					found = append(found, pair)
				}
			}
		}
	}
	return found
}

// joined writes a and b, or a, b and c.
func joined(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
