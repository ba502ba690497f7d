package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
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
			if size := SizeOf(objects); size > work.DefaultManifestLimit {
				return fmt.Errorf("the manifests take %d bytes, more than the %d that a hub accepts in one work; "+
					"divide them among several works", size, work.DefaultManifestLimit)
			}
			return nil
		},
		Kinds: CheckObject,
	}
}

// Check finds what is wrong with the content of a configuration as far as it is
// known. Content without any object passes: see Plan.
func (c Content) Check(rules Rules) diag.Diagnostics {
	k := c.read(func(err error) error { return err })
	k.rules = rules
	k.kinds(c.FieldValidation)
	k.sensitive(c.SensitiveFields)
	if i := DuplicateOf(k.found); i >= 0 {
		k.diags.AddAttributeError(k.at[i], "Duplicate manifest",
			fmt.Sprintf("%s is the second: %s.", k.places[i], duplicate(k.found[i])))
	}
	if rules.Each != nil {
		k.each()
	}
	if err := rules.Fits(k.found); err != nil {
		k.diags.AddError("Too large", attribute.Capitalize(err.Error())+".")
	}
	return k.diags
}

// Known are the objects of a configuration that are known, and whether there are no
// others.
func (c Content) Known() (objects []Object, complete bool) {
	k := c.read(discreet)
	return k.found, !k.unknown && !k.partly && !k.diags.HasError()
}

// read goes through the inputs. open makes errors of those that plans hide fit to be shown.
func (c Content) read(open func(error) error) *checker {
	k := &checker{}
	k.texts("manifests", c.Manifests, open)
	k.objects(c.Objects)
	k.texts("manifests_wo", c.WriteOnly, discreet)
	return k
}

// checker goes through the inputs of a work.
type checker struct {
	rules Rules
	diags diag.Diagnostics
	// found are the objects that can be read; at and places say where each is, for
	// Terraform and in words.
	found  []Object
	at     []path.Path
	places []string
	// count is that of all elements, known or not; unknown tells of inputs whose
	// elements are not known.
	count   int
	unknown bool
	// partly says that an element is not known.
	partly bool
}

func (k *checker) texts(attr string, list types.List, explain func(error) error) {
	k.unknown = k.unknown || list.IsUnknown()
	for i, element := range list.Elements() {
		k.count++
		text, ok := element.(types.String)
		if !ok || text.IsUnknown() {
			k.partly = true
			continue
		}
		parsed, err := ParseYAML(text.ValueString())
		at := path.Root(attr).AtListIndex(i)
		if err != nil {
			k.invalid(at, fmt.Errorf("%s[%d]: %w", attr, i, explain(err)))
			continue
		}
		for _, object := range parsed {
			k.add(at, place(attr, i, object), object)
		}
	}
}

func (k *checker) objects(objects types.Dynamic) {
	if isNull(objects) {
		return
	}
	if isUnknown(objects) {
		k.unknown = true
		return
	}
	root := path.Root("objects")
	list, err := elementsOf(objects)
	if err != nil {
		k.invalid(root, err)
		return
	}
	for i, element := range list {
		k.count++
		if hasSecret(element) {
			k.diags.AddAttributeError(root, "Secret in objects", fmt.Sprintf("objects[%d] has a Secret with values, "+
				"and plans show what is in objects. Put it into manifests, as yamlencode({ ... }), which plans hide, "+
				"or into manifests_wo, which keeps it out of the state too.", i))
		}
		object, err := objectManifest(element)
		switch {
		case errors.Is(err, ErrUnknown):
			k.partly = true
		case err != nil:
			k.invalid(root, fmt.Errorf("objects[%d]: %w", i, err))
		default:
			k.add(root, fmt.Sprintf("objects[%d]", i), object)
		}
	}
}

func (k *checker) invalid(at path.Path, err error) {
	k.diags.AddAttributeError(at, "Invalid manifest", fmt.Sprintf("The manifest can't be applied: %s.", err))
}

func (k *checker) add(at path.Path, place string, object Object) {
	k.found, k.at, k.places = append(k.found, object), append(k.at, at), append(k.places, place)
}

// kinds checks the objects of Kubernetes' own kinds.
func (k *checker) kinds(validation types.String) {
	if validation.IsUnknown() || validation.ValueString() == fieldsIgnored {
		return
	}
	for i, object := range k.found {
		value, err := object.Value()
		if err != nil {
			continue
		}
		var wrong, unknown []string
		for _, problem := range k.rules.Kinds(value) {
			if problem.Unknown {
				unknown = append(unknown, problem.String())
			} else {
				wrong = append(wrong, problem.String())
			}
		}
		subject := fmt.Sprintf("%s, %s", k.places[i], object)
		if len(wrong) > 0 {
			k.diags.AddAttributeError(k.at[i], "Invalid manifest",
				fmt.Sprintf("No cluster would accept %s:\n%s", subject, listed(wrong)))
		}
		if len(unknown) == 0 {
			continue
		}
		summary, detail := "Unknown to Kubernetes "+KubernetesRelease, fmt.Sprintf("%s:\n%s", subject, listed(unknown))
		if validation.ValueString() == fieldsWarned {
			k.diags.AddAttributeWarning(k.at[i], summary, detail)
			continue
		}
		k.diags.AddAttributeError(k.at[i], summary, fmt.Sprintf("%s\nIf your clusters are of a later release, which "+
			"has it, set field_validation = %q.", detail, fieldsWarned))
	}
}

// sensitive checks the paths of fields that are not to be shown.
func (k *checker) sensitive(paths types.Set) {
	at := path.Root("sensitive_fields")
	if paths.IsNull() || !attribute.Known(paths) {
		return
	}
	texts := attribute.StringList(paths)
	s, err := ParseSensitive(texts)
	if err != nil {
		k.diags.AddAttributeError(at, "Invalid path", attribute.Capitalize(err.Error())+".")
		return
	}
	if k.unknown || k.partly {
		return
	}
	for _, i := range s.Idle(k.found) {
		k.diags.AddAttributeWarning(at, "No such field", fmt.Sprintf("%q in sensitive_fields is no field of any of "+
			"the objects, so that nothing is hidden by it. Correct the path, or remove it.", texts[i]))
	}
}

// each checks the objects one by one.
func (k *checker) each() {
	for i, object := range k.found {
		writeOnly := k.at[i].ParentPath().Equal(path.Root("manifests_wo"))
		problems, warnings := k.rules.Each(object, writeOnly || object.MayBeSecret())
		subject := fmt.Sprintf("%s, %s", k.places[i], object)
		if len(problems) > 0 {
			k.diags.AddAttributeError(k.at[i], "Invalid manifest", fmt.Sprintf("%s:\n%s", subject, listed(problems)))
		}
		if len(warnings) > 0 {
			k.diags.AddAttributeWarning(k.at[i], "Manifest without effect",
				fmt.Sprintf("%s:\n%s", subject, listed(warnings)))
		}
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
