// Package override gives each cluster its own content of a ManifestWorkReplicaSet, or of an
// AddOnTemplate: it applies a WorkOverride to the template. The hub's controllers, its
// admission and the provider use it. It depends on nothing but its arguments.
//
// What a cluster gets costs a bounded time and is at most as large as a work may be,
// whatever the override says: the author of one override can't hold up others.
package override

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

const (
	// maxPatch is how large a patch may be, and maxPatches how large those of an
	// override may be together, in bytes.
	maxPatch, maxPatches = 64 << 10, 256 << 10
	// maxPatched is how many bytes of manifests and patches may be read to patch what one
	// cluster gets: a manifest counts once for each of its patches. It takes a fraction of a second.
	// perPatch is what a patch of a manifest counts beside the bytes of both.
	maxPatched, perPatch = 8 << 20, 512
	// maxOperations is how many operations a JSON patch may have.
	maxOperations = 500
	// maxValues and maxOverrides are how many an override may have, and maxName how long the
	// name of a value may be.
	maxValues, maxOverrides, maxName = 100, 64, 63
	// maxValue is how long a value may be for one cluster, in bytes.
	maxValue = 4 << 10
	// maxDefault is how long a default may be, in bytes.
	maxDefault = 1 << 10
	// shownNames is how many names a message lists.
	shownNames = 10
)

// The values that every cluster has without their being listed.
const (
	clusterName = "CLUSTER_NAME"
	clusterURL  = "CLUSTER_URL"
)

// Override is a WorkOverride that was read. It is safe for concurrent use.
type Override struct {
	values  map[string]source
	patches []patch
}

// Read reads an override. Its error names the field, the reason and the remedy.
func Read(spec v1alpha1.WorkOverrideSpec) (*Override, error) {
	o := &Override{values: map[string]source{clusterName: nameSource{}, clusterURL: urlSource{}}}
	if err := checkExpressions(spec); err != nil {
		return nil, err
	}
	if len(spec.Values) > maxValues {
		return nil, fmt.Errorf("spec.values: there are %d, and %d are allowed: join some of them", len(spec.Values),
			maxValues)
	}
	if len(spec.Overrides) > maxOverrides {
		return nil, fmt.Errorf("spec.overrides: there are %d, and %d are allowed: join some of them",
			len(spec.Overrides), maxOverrides)
	}
	for i, v := range spec.Values {
		field := fmt.Sprintf("spec.values[%d]", i)
		if !nameShape.MatchString(v.Name) || len(v.Name) > maxName {
			return nil, fmt.Errorf("%s.name: %q has to be upper-case letters, digits and _, beginning with a letter, "+
				"%d at most, such as REGION", field, text.Cut(v.Name, 100), maxName)
		}
		if _, taken := o.values[v.Name]; taken {
			return nil, fmt.Errorf("%s.name: %q is a value already: choose another name", field, v.Name)
		}
		s, err := sourceOf(field, v)
		if err != nil {
			return nil, err
		}
		o.values[v.Name] = s
	}
	size := 0
	for i, v := range spec.Overrides {
		p, err := readPatch(fmt.Sprintf("spec.overrides[%d]", i), v)
		if err != nil {
			return nil, err
		}
		if size += len(v.Patch.Raw); size > maxPatches {
			return nil, fmt.Errorf("spec.overrides: the patches have more than %d bytes together: make them smaller, "+
				"or divide the objects", maxPatches)
		}
		o.patches = append(o.patches, p)
	}
	return o, nil
}

// Digest identifies what an override says: equal digests mean that it says the same.
func Digest(spec v1alpha1.WorkOverrideSpec) string {
	data, err := json.Marshal(spec)
	var canonical any
	if err == nil {
		err = json.Unmarshal(data, &canonical) // patches in the one order of keys
	}
	if err == nil {
		data, err = json.Marshal(canonical)
	}
	if err != nil {
		data = []byte(err.Error()) // what was read from JSON can be written as JSON
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Reference is the override of a replica set, as its annotation has it.
type Reference struct {
	// Inline is what the annotation itself says; nil where it names a WorkOverride.
	Inline *v1alpha1.WorkOverrideSpec
	// Name is the WorkOverride's, in the set's namespace.
	Name string
	// Digest is that of what the WorkOverride has to say; with "" it may say anything.
	Digest string
}

// None reports whether the set has no override.
func (r Reference) None() bool { return r.Inline == nil && r.Name == "" }

// ReferenceOf is what the annotations of a replica set say. The error says what is wrong with
// the annotation.
func ReferenceOf(annotations map[string]string) (Reference, error) {
	value, ok := annotations[muster.OverrideAnnotation]
	if !ok {
		return Reference{}, nil
	}
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		spec := &v1alpha1.WorkOverrideSpec{}
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(spec); err != nil {
			return Reference{}, fmt.Errorf("the annotation %s has to be the spec of a WorkOverride as JSON: %w",
				muster.OverrideAnnotation, err)
		}
		return Reference{Inline: spec}, nil
	}
	name, digest, pinned := strings.Cut(value, "@")
	problems := validation.IsDNS1123Subdomain(name)
	if pinned && !digestShape.MatchString(digest) {
		problems = append(problems, fmt.Sprintf("the digest behind @ has to be that of the WorkOverride's annotation "+
			"%s", muster.OverrideDigestAnnotation))
	}
	if len(problems) > 0 {
		return Reference{}, fmt.Errorf("the annotation %s: %q has to be the name of a WorkOverride in the set's "+
			"namespace, name@digest, or the spec of one as JSON: %s", muster.OverrideAnnotation, text.Cut(value, 100),
			strings.Join(problems, "; "))
	}
	return Reference{Name: name, Digest: digest}, nil
}

// NotThereError is that of a WorkOverride that a set names, and that is not there or says
// something else.
type NotThereError string

// Error implements error.
func (e NotThereError) Error() string { return string(e) }

// Spec is what the reference leads to. get reads the WorkOverride of a name in the set's
// namespace; its error is returned as it is, unless it is that there is none.
func (r Reference) Spec(get func(name string) (*v1alpha1.WorkOverride, error)) (*v1alpha1.WorkOverrideSpec, error) {
	if r.Name == "" {
		return r.Inline, nil
	}
	o, err := get(r.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, NotThereError(fmt.Sprintf("the set's namespace has no WorkOverride %s: write it, or correct the "+
			"set's annotation %s", r.Name, muster.OverrideAnnotation))
	case err != nil:
		return nil, err
	case r.Digest != "" && r.Digest != Digest(o.Spec):
		return nil, NotThereError(fmt.Sprintf("the WorkOverride %s has the digest %s, and the set's annotation %s "+
			"asks for %s: write the one that is meant", r.Name, Digest(o.Spec), muster.OverrideAnnotation, r.Digest))
	}
	return &o.Spec, nil
}

// Of is the template of a set with its override; nil for a set without one. It is for clients,
// which don't know how large works may be on the hub. get is as in Reference.Spec.
func Of(
	set *workv1alpha1.ManifestWorkReplicaSet,
	get func(name string) (*v1alpha1.WorkOverride, error),
) (*Template, error) {
	ref, err := ReferenceOf(set.Annotations)
	if err != nil || ref.None() {
		return nil, err
	}
	spec, err := ref.Spec(get)
	if err != nil {
		return nil, err
	}
	read, err := Read(*spec)
	if err != nil {
		return nil, err
	}
	return read.Bind(set.Spec.ManifestWorkTemplate, largest)
}

// largest is larger than any work that a store takes, in bytes.
const largest = 2 << 20

// Reported reports whether the hub has looked at the override that a set has now: false while
// the condition Overridden is about another one, or is missing, or is left from one that is
// gone. Of a WorkOverride that is named without a digest nobody knows.
func Reported(set *workv1alpha1.ManifestWorkReplicaSet) bool {
	ref, err := ReferenceOf(set.Annotations)
	c := meta.FindStatusCondition(set.Status.Conditions, muster.ConditionOverridden)
	switch {
	case err != nil, ref.Name != "" && ref.Digest == "":
		return c != nil
	case ref.None():
		return c == nil
	case ref.Inline != nil:
		ref.Digest = Digest(*ref.Inline)
	}
	return c != nil && strings.HasPrefix(c.Message, rollout.AboutOverride(ref.Digest))
}

// Content identifies what a replica set hands out, to all of its clusters together: its
// template, and the override that it names. An approval of a rollout is one of that content.
func Content(set *workv1alpha1.ManifestWorkReplicaSet) string {
	template := workdigest.Of(set.Spec.ManifestWorkTemplate)
	named, ok := set.Annotations[muster.OverrideAnnotation]
	if !ok {
		return template
	}
	sum := sha256.Sum256([]byte(template + " " + named))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var nameShape = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

var digestShape = regexp.MustCompile(`^[0-9a-f]{64}$`)

// errMissing begins the error about a value that a cluster does not have.
var errMissing = errors.New("the cluster has no value")

// names are the known values, for messages.
func (o *Override) names() []string { return sets.List(sets.KeySet(o.values)) }

// resolve is a value of a cluster.
func (o *Override) resolve(ctx context.Context, c *subject, name string) (any, error) {
	s, ok := o.values[name]
	if !ok { // a patch can put one together of parts that are none
		return nil, fmt.Errorf("{{%s}} is none of the values (%s)", name, text.List(o.names(), shownNames))
	}
	v, err := s.of(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("the value %s: %w", name, err)
	}
	if s, ok := v.(string); ok && len(s) > maxValue {
		return nil, fmt.Errorf("the value %s has %d bytes, and may have %d", name, len(s), maxValue)
	}
	return v, nil
}
