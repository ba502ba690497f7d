package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/manifestwork"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// Template is muster_addon_template.
func Template() crud.Declared {
	return &crud.Kind[addOnTemplate]{
		Type: "addon_template", Noun: "add-on template", Empty: &v1alpha1.AddOnTemplate{},
		Description: "An add-on without code: the objects of its agent, and the credentials and rights that the " +
			"agent needs on the hub. A `muster_addon` uses it by naming it in `template`, or in `configs` of a " +
			"placement.\n\n" +
			"Texts in the objects may have variables such as `{{CLUSTER_NAME}}`, without spaces inside the braces. " +
			"`CLUSTER_NAME` is the cluster, `INSTALL_NAMESPACE` the namespace of the agent, where a " +
			"`muster_addon_deployment_config` gives one, and `HUB_KUBECONFIG` the path of the kubeconfig for the " +
			"hub, where there is a registration for it. All others are `customized_variables` of a " +
			"`muster_addon_deployment_config`, or `values` of the template, which differ from cluster to cluster; " +
			"one that has no value in either is left out of the text. `metadata.namespace` and `metadata.labels` of " +
			"an object can't have variables. All containers of Deployments and DaemonSets " +
			"get these three as environment variables, and the credentials as files.\n\n" +
			"A Job or Pod with the annotation `" + addon.PreDeleteAnnotation + "` runs when the add-on is removed " +
			"from a cluster, before its objects go. " +
			"An object with the annotation `" + addon.DeletionOrphanAnnotation + "` stays then.\n\n" +
			"A change of a template that is in use reaches the clusters as the rollout strategy of the add-on says. " +
			"Destroying waits until no add-on in a cluster uses the template: one without its template can neither " +
			"run nor be removed.",
		Keys: []crud.Key{{
			Name: "name",
			Description: "Name of the template. Changing it replaces the template: to change the objects of an " +
				"add-on cluster by cluster, create another template beside this one, and let the `muster_addon` " +
				"name that.",
			Valid: attribute.ValidObjectName("template name"),
		}},
		Table:    append(templateContent().Table(), templateTable()...),
		Timeouts: crud.Timeouts{Delete: "deleting, which waits until no add-on uses it,"},
		Hooks:    templateHooks(),
		List: &crud.List[addOnTemplate]{
			Plural: "templates of add-ons", Objects: &v1alpha1.AddOnTemplateList{},
			Describe: func(object addOnTemplate) string {
				return fmt.Sprintf("add-on %s, %s", object.Spec.AddonName,
					crud.Count(len(object.Spec.AgentSpec.Workload.Manifests), "object"))
			},
		},
	}
}

type addOnTemplate = *v1alpha1.AddOnTemplate

// templateContent is where a template has its objects.
func templateContent() workload.Kind[addOnTemplate] {
	return workload.Kind[addOnTemplate]{
		Template: func(object addOnTemplate) *workv1.ManifestsTemplate { return &object.Spec.AgentSpec.Workload },
		Rules:    templateRules(),
	}
}

func templateHooks() crud.Hooks[addOnTemplate] {
	h := templateContent().Hooks()
	h.Validate, h.Plan, h.Preview = validateTemplate, planTemplate, checkClusters
	h.BeforeDelete = func(ctx context.Context, c *crud.Change[addOnTemplate]) bool {
		return untilUnused(ctx, c, addon.TemplateResource)
	}
	return h
}

// templateTable has the attributes beside the objects.
func templateTable() attribute.Table[addOnTemplate] {
	table := attribute.Table[addOnTemplate]{
		attribute.Text("addon_name",
			attribute.Required("Name of the add-on that the template is for: that of its `muster_addon`.",
				attribute.ValidObjectName("add-on name")),
			func(t addOnTemplate) *string { return &t.Spec.AddonName }),
		attribute.LabelsField[addOnTemplate]("Labels of the template."),
		attribute.AnnotationsBeside[addOnTemplate](
			"Annotations of the template. That of its override is `values` and `overrides`.",
			map[string]string{muster.OverrideAnnotation: "use values and overrides"},
		).
			Importing(func(key string) bool {
				return key != work.WriteOnlyAnnotation && key != muster.OverrideAnnotation &&
					attribute.ImportableAnnotation(key)
			}),
		manifestwork.ManifestConfigs("spec.agentSpec.manifestConfigs",
			"Treats some of the objects specially: how they are written, what is reported of them, and which "+
				"conditions are derived from them. Hubs report the usual fields of Deployments and DaemonSets in any "+
				"case, because the add-on's health is told from them.",
			func(t addOnTemplate) *[]workv1.ManifestConfigOption { return &t.Spec.AgentSpec.ManifestConfigs }),
		registrationField(),
	}
	return append(table, workload.OverrideFields[addOnTemplate]("Variables of a `muster_addon_deployment_config`, "+
		"and those that hubs set themselves, go before. ")...)
}

// validateTemplate checks the objects of all inputs, with their placeholders, and the
// registrations.
func validateTemplate(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var registrations types.List
	content, values := workload.Of(ctx, config, diags), attribute.ValuesOf(ctx, config, diags)
	diags.Append(config.GetAttribute(ctx, path.Root("registration"), &registrations)...)
	if diags.HasError() {
		return
	}
	rules := templateRules()
	if workload.Overridden(values) {
		rules = withValues(rules, workload.ValueNames(values))
	}
	diags.Append(content.Check(rules)...)
	// Namespaces of objects may be others in a cluster, so that options are not matched.
	manifestwork.CheckOptions(ctx, config, workload.None(), diags)
	checkRegistrations(path.Root("registration"), registrations, diags)
	workload.CheckOverride(values, diags)
}

// withValues are rules for a template that has values of these names: a text with a placeholder
// may become a number, and a variable that is nearly called like one is probably that.
func withValues(rules workload.Rules, names []string) workload.Rules {
	each := rules.Each
	rules = rules.FilledIn(override.HasPlaceholder)
	rules.Each = func(object workload.Object, secret bool) (problems, warnings []string) {
		problems, warnings = each(object, secret)
		if secret {
			return problems, warnings
		}
		seen := map[string]bool{}
		for _, found := range placeholderText.FindAllSubmatch(object.JSON, -1) {
			name := string(found[1])
			meant := suggest.Name(name, names)
			if seen[name] || meant == "" || meant == name || samples()[name] != "" {
				continue
			}
			seen[name] = true
			warnings = append(warnings, fmt.Sprintf("{{%s}} is none of values, and is left out unless a deployment "+
				"configuration has such a variable; did you mean {{%s}}?", name, meant))
		}
		return problems, warnings
	}
	return rules
}

// planTemplate keeps the objects' old wording where the new one means the same, and lists
// their fields.
func planTemplate(
	ctx context.Context, r *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() {
		return false
	}
	changed := workload.Plan(ctx, req, resp)
	workload.PlanOverride(ctx, r, attribute.ValuesOf(ctx, resp.Plan, &resp.Diagnostics), &resp.Diagnostics)
	return changed || attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).
		Beyond("fields", "sensitive_fields", "field_validation", "force_conflicts", "timeouts")
}

// checkClusters refuses a plan in which a cluster that has the add-on by this template lacks a
// value.
func checkClusters(ctx context.Context, p crud.Previewing[addOnTemplate]) {
	if p.Deletes || !workload.Overridden(p.Values) {
		return
	}
	own, err := override.OfAddOn(p.Object, work.DefaultManifestLimit)
	if err != nil || own == nil {
		return // the hub has refused it in its dry run
	}
	parsed, err := template.Parse(p.Object)
	if err != nil {
		return
	}
	addOns := &v1alpha1.ManagedClusterAddOnList{}
	if p.Client.List(ctx, addOns, kube.ListOptions{}) != nil {
		return
	}
	var clusters []string
	used := map[string]*v1alpha1.ManagedClusterAddOn{}
	for i := range addOns.Items {
		a := &addOns.Items[i]
		if of, err := template.ReferencesOf(a); err == nil && of.Template.Name == p.Object.Name {
			clusters, used[a.Namespace] = append(clusters, a.Namespace), a
		}
	}
	what := fmt.Sprintf("add-on template %q", p.Object.Name)
	workload.CheckClusters(ctx, p, what, clusters, func(mc *clusterv1.ManagedCluster) error {
		in := template.Input{Cluster: mc, AddOn: used[mc.Name]}
		if !readConfig(ctx, p.Client, &in) {
			return nil // its variables may be what the cluster needs
		}
		_, err := parsed.RenderFor(ctx, own, in)
		return err
	})
}

// readConfig reads the deployment configuration of an add-on in a cluster, if it has one. It
// reports whether it is known.
func readConfig(ctx context.Context, client *kube.Client, in *template.Input) bool {
	of, err := template.ReferencesOf(in.AddOn)
	if err != nil || of.Config == nil {
		return err == nil
	}
	in.Config = &v1alpha1.AddOnDeploymentConfig{}
	return client.Get(ctx, in.Config, of.Config.Namespace, of.Config.Name) == nil
}

// What is wrong with the objects of a template, as far as a configuration shows it.

// templateRules are the rules for the objects of a template: a hub divides them among
// works, and fills in their placeholders.
func templateRules() workload.Rules {
	return workload.Rules{
		Limit: "The template has the objects of all three, in this order; each may take up to 500 KiB, and the hub " +
			"divides them among as many works as they need.",
		Fits: func(objects []workload.Object) error {
			for _, object := range objects {
				if size := len(object.JSON); size > work.DefaultManifestLimit {
					return fmt.Errorf("%s takes %d bytes, more than the %d that a hub accepts in one work; divide "+
						"it, or let the agent fetch what it needs", object, size, work.DefaultManifestLimit)
				}
			}
			return nil
		},
		Kinds: kindProblems,
		Each:  checkManifest,
	}
}

// checkManifest checks one object: its placeholders, and the annotations by which hubs
// treat it specially. Where the object may be secret, nothing of it is quoted but its
// name.
func checkManifest(object workload.Object, secret bool) (problems, warnings []string) {
	one := &v1alpha1.AddOnTemplate{}
	one.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: object.JSON}}}
	parsed, err := template.Parse(one)
	switch {
	case err != nil && secret:
		problems = append(problems, "a text in it opens a placeholder with {{ that nothing closes; close it with }}")
	case err != nil:
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		problems = append(problems, strings.TrimPrefix(err.Error(), "manifests[0] "))
	default:
		for _, name := range parsed.Placeholders() {
			if problem := placeholderProblem(name, secret); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	fields, err := object.Value()
	if err != nil {
		return problems, nil
	}
	problems = append(problems, literalProblems(fields)...)
	if marked(fields, addon.PreDeleteAnnotation) != nil && !runs(object) {
		warnings = append(warnings, fmt.Sprintf("it has %s, which counts for a Job or a Pod alone, so the object is "+
			"deployed like the others; remove it there", addon.PreDeleteAnnotation))
	}
	places := []string{addon.LocationManaged, addon.LocationHosting, addon.LocationNone}
	if at := marked(fields, addon.LocationAnnotation); at != nil && !slices.Contains(places, *at) {
		problems = append(problems, fmt.Sprintf("%s is %q, and it takes one of "+
			"%s", addon.LocationAnnotation, *at, strings.Join(places, ", ")))
	}
	return problems, warnings
}

// literalProblems are the placeholders where API servers take none: they check the
// namespace and the labels of each object when the template is written.
func literalProblems(fields map[string]any) []string {
	var problems []string
	metadata, _ := fields["metadata"].(map[string]any)
	if namespace, _ := metadata["namespace"].(string); strings.Contains(namespace, "{{") {
		problems = append(problems, "metadata.namespace has a placeholder, and API servers refuse a template with "+
			"one there; write a namespace such as "+addon.DefaultInstallNamespace+
			"; agent_install_namespace of a muster_addon_deployment_config replaces it")
	}
	labels, _ := metadata["labels"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value, _ := labels[key].(string); strings.Contains(key+value, "{{") {
			problems = append(problems, "metadata.labels has a placeholder, and API servers refuse a template with "+
				"one there; use an annotation, or a label of the pods")
			break
		}
	}
	return problems
}

// runs reports whether an object is of a kind that runs once.
func runs(object workload.Object) bool {
	return object.Kind == "Pod" && object.APIVersion == "v1" ||
		object.Kind == "Job" && strings.HasPrefix(object.APIVersion, "batch/")
}

// marked is the annotation of an object, or else its label, of a key; nil without one.
func marked(fields map[string]any, key string) *string {
	metadata, _ := fields["metadata"].(map[string]any)
	for _, in := range []string{"annotations", "labels"} {
		entries, _ := metadata[in].(map[string]any)
		if value, ok := entries[key].(string); ok {
			return &value
		}
	}
	return nil
}

// placeholderProblem says what is wrong with a placeholder that can't have a value: it
// would be left out of every text.
func placeholderProblem(name string, secret bool) string {
	if variableName.MatchString(name) && len(name) <= maxVariableName {
		return ""
	}
	bare := strings.TrimSpace(name)
	switch {
	case secret:
		return "a text in it has {{...}} around what can't be the name of a variable: letters, digits and " +
			"underscores without spaces, as in {{CLUSTER_NAME}}; hubs would leave it out"
	case variableName.MatchString(bare):
		return fmt.Sprintf("{{%s}} has spaces in it, and hubs would leave it out; write {{%s}}", name, bare)
	}
	return fmt.Sprintf("{{%s}} can't be a variable, and hubs would leave it out: names are letters, digits and "+
		"underscores, as in {{CLUSTER_NAME}}. To have these characters in the object, write a variable such as "+
		"{{TEXT}}, and put the text into customized_variables of a muster_addon_deployment_config", name)
}

// samples are values of the variables that hubs set themselves.
func samples() map[string]string {
	return map[string]string{
		"CLUSTER_NAME": "cluster1", "INSTALL_NAMESPACE": addon.DefaultInstallNamespace,
		"HUB_KUBECONFIG": "/managed/hub-kubeconfig/kubeconfig",
	}
}

var placeholderText = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)

// kindProblems are the problems of an object of Kubernetes' own kinds as clusters get
// it. Texts with variables that only a deployment configuration sets may turn out to be
// anything, but they stay texts.
func kindProblems(object map[string]any) []workload.Problem {
	f := filling{samples: samples(), open: map[string]bool{}}
	filled, _ := f.value("", object).(map[string]any)
	return slices.DeleteFunc(workload.CheckObject(filled), func(p workload.Problem) bool {
		return f.open[p.Path] && !p.Typed
	})
}

// filling puts samples in the place of placeholders.
type filling struct {
	samples map[string]string
	// open are the paths of texts that have other variables.
	open map[string]bool
}

func (f filling) value(at string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		filled := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, open := f.text(key)
			if open {
				f.open[workload.JoinPath(at, name)] = true
			}
			filled[name] = f.value(workload.JoinPath(at, name), value[key])
		}
		return filled
	case []any:
		filled := make([]any, 0, len(value))
		for i, element := range value {
			filled = append(filled, f.value(at+"["+strconv.Itoa(i)+"]", element))
		}
		return filled
	case string:
		text, open := f.text(value)
		if open {
			f.open[at] = true
		}
		return text
	}
	return value
}

// text is a text with samples, and whether it has other variables.
func (f filling) text(text string) (filled string, open bool) {
	filled = placeholderText.ReplaceAllStringFunc(text, func(placeholder string) string {
		if sample, ok := f.samples[strings.Trim(placeholder, "{}")]; ok {
			return sample
		}
		open = true
		return "x"
	})
	return filled, open
}
