package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What is wrong with the content, as far as a configuration shows it.

const noObject = "There is nothing to bring to clusters: set at least one of manifests, objects and manifests_wo, " +
	"and put an object in it."

// Rules are what holds for objects beyond their form. It depends on what brings them
// to clusters.
type Rules struct {
	// Limit documents Fits.
	Limit string
	// Fits says why all objects together can't be brought.
	Fits func([]Object) error
	// Kinds lists what is wrong with an object, in JSON's terms, that is of one of
	// Kubernetes' own kinds.
	Kinds func(object map[string]any) []Problem
	// Each, which may be nil, checks one object. What it says quotes nothing of one
	// that may be secret.
	Each func(object Object, secret bool) (problems, warnings []string)
}

// OfWorks are the rules for the objects of one work.
func OfWorks() Rules {
	return Rules{
		Limit: "The work has the objects of all three, in this order; together they may take up to 500 KiB.",
		Fits: func(objects []Object) error {
			size := 0
			for _, object := range objects {
				size += len(object.JSON)
			}
			if size > work.DefaultManifestLimit {
				return fmt.Errorf("the manifests take %d bytes, more than the %d that a hub accepts in one work; "+
					"divide them among several works", size, work.DefaultManifestLimit)
			}
			return nil
		},
		Kinds: CheckObject,
	}
}

// FilledIn are rules for objects in whose texts something is filled in later: what open
// reports of a text is not known yet, so that nothing is said of it.
func (r Rules) FilledIn(open func(text string) bool) Rules {
	kinds := r.Kinds
	r.Kinds = func(object map[string]any) []Problem {
		unknown := map[string]bool{}
		var walk func(at string, value any)
		walk = func(at string, value any) {
			switch v := value.(type) {
			case map[string]any:
				for key, field := range v {
					walk(JoinPath(at, key), field)
				}
			case []any:
				for i, element := range v {
					walk(fmt.Sprintf("%s[%d]", at, i), element)
				}
			case string:
				unknown[at] = open(v)
			}
		}
		walk("", object)
		return slices.DeleteFunc(kinds(object), func(p Problem) bool { return unknown[p.Path] })
	}
	return r
}

// Check finds what is wrong with the content of a configuration as far as it is
// known. Content without any object passes: see Plan.
func (c Content) Check(rules Rules) (diags diag.Diagnostics) {
	var found []reading
	for _, r := range c.read() {
		switch {
		case r.err == nil:
			found = append(found, r)
		case !errors.Is(r.err, ErrUnknown):
			diags.AddAttributeError(r.at, "Invalid manifest",
				fmt.Sprintf("The manifest can't be applied: %s: %s.", r.place, r.err))
		}
	}
	if list, ok := c.Objects.UnderlyingValue().(attribute.Elements); ok {
		for i, element := range list.Elements() {
			if hasSecret(element) {
				diags.AddAttributeError(path.Root("objects"), "Secret in objects", fmt.Sprintf("objects[%d] has a "+
					"Secret with values, and plans show what is in objects. Put it into manifests, as yamlencode({ "+
					"... }), which plans hide, or into manifests_wo, which keeps it out of the state too.", i))
			}
		}
	}
	for _, r := range found {
		r.check(rules, c.FieldValidation, &diags)
	}
	c.checkSensitive(&diags)
	objects, _ := c.Known()
	if i := DuplicateOf(objects); i >= 0 {
		diags.AddAttributeError(found[i].at, "Duplicate manifest",
			fmt.Sprintf("%s is the second: %s.", found[i].place, duplicate(objects[i])))
	}
	if err := rules.Fits(objects); err != nil {
		diags.AddError("Too large", attribute.Capitalize(err.Error())+".")
	}
	return diags
}

// check finds what is wrong with the object by itself.
func (r reading) check(rules Rules, validation types.String, diags *diag.Diagnostics) {
	subject := fmt.Sprintf("%s, %s", r.place, r.object)
	refuse := func(format string, problems []string) {
		if len(problems) > 0 {
			diags.AddAttributeError(r.at, "Invalid manifest", fmt.Sprintf(format, subject, listed(problems)))
		}
	}
	value, err := r.object.Value()
	if err == nil && !validation.IsUnknown() && validation.ValueString() != fieldsIgnored {
		var wrong, unknown []string
		for _, problem := range rules.Kinds(value) {
			if problem.Unknown {
				unknown = append(unknown, problem.String())
			} else {
				wrong = append(wrong, problem.String())
			}
		}
		refuse("No cluster would accept %s:\n%s", wrong)
		summary := "Unknown to Kubernetes " + KubernetesRelease
		detail := fmt.Sprintf("%s:\n%s", subject, listed(unknown))
		switch {
		case len(unknown) == 0:
		case validation.ValueString() == fieldsWarned:
			diags.AddAttributeWarning(r.at, summary, detail)
		default:
			diags.AddAttributeError(r.at, summary, fmt.Sprintf("%s\nIf your clusters are of a later release, which "+
				"has it, set field_validation = %q.", detail, fieldsWarned))
		}
	}
	if rules.Each == nil {
		return
	}
	problems, warnings := rules.Each(r.object, r.input == "manifests_wo" || r.object.MayBeSecret())
	refuse("%s:\n%s", problems)
	if len(warnings) > 0 {
		diags.AddAttributeWarning(r.at, "Manifest without effect",
			fmt.Sprintf("%s:\n%s", subject, listed(warnings)))
	}
}

// checkSensitive checks the paths of fields that are not to be shown.
func (c Content) checkSensitive(diags *diag.Diagnostics) {
	if !attribute.Known(c.SensitiveFields) {
		return
	}
	at, texts := path.Root("sensitive_fields"), attribute.StringList(c.SensitiveFields)
	s, err := ParseSensitive(texts)
	if err != nil {
		diags.AddAttributeError(at, "Invalid path", attribute.Capitalize(err.Error())+".")
		return
	}
	objects, complete := c.Known()
	if !complete {
		return
	}
	for _, i := range s.Idle(objects) {
		diags.AddAttributeWarning(at, "No such field", fmt.Sprintf("%q in sensitive_fields is no field of any of "+
			"the objects, so that nothing is hidden by it. Correct the path, or remove it.", texts[i]))
	}
}

// shownProblems is how many problems of one object are listed.
const shownProblems = 10

func listed(problems []string) string {
	list := "  " + strings.Join(text.First(problems, shownProblems), ".\n  ") + "."
	return strings.ReplaceAll(list, "?.", "?")
}

// fit checks what only all objects together show.
func (r Rules) fit(objects []Object) error {
	if len(objects) == 0 {
		return fmt.Errorf("there is no object; set at least one of manifests, objects and manifests_wo")
	}
	if i := DuplicateOf(objects); i >= 0 {
		return duplicate(objects[i])
	}
	return r.Fits(objects)
}

// duplicate is the error of an object that appears a second time.
func duplicate(object Object) error {
	return fmt.Errorf("%s appears twice, so the two would overwrite each other; remove one of them", object)
}

// Places tell where in the inputs each object is, by its key: manifests[3],
// document 2. Nil knows no place.
type Places map[string]string

// Places are those of the objects that are known.
func (c Content) Places() Places {
	if c.imported() {
		c.Manifests = None().Manifests
	}
	places := Places{}
	for _, r := range c.read() {
		if r.err == nil {
			places[r.object.Key()] = r.place
		}
	}
	return places
}

// PlacesWith are Places with the write-only manifests of a configuration.
func (c Content) PlacesWith(ctx context.Context, config crud.Source) Places {
	return c.with(ctx, config).Places()
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
