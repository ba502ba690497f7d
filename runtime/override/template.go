package override

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// placeholder stands for a value. What is written otherwise, such as {{ .Values.x }} of
// another program, is none.
var placeholder = regexp.MustCompile(`\{\{ ?([A-Z][A-Z0-9_]*) ?\}\}`)

// HasPlaceholder reports whether something is filled in in a text.
func HasPlaceholder(text string) bool { return placeholder.MatchString(text) }

// Template is what a replica set or an add-on's template hands out, with its override. It is
// safe for concurrent use.
type Template struct {
	*Override
	spec  workv1.ManifestWorkSpec
	limit int
	parts []part
	// options has placeholders in what is not a manifest.
	options bool
}

// part is a manifest of the template.
type part struct {
	object  *unstructured.Unstructured
	patches []*patch
	// plain is whether the manifest itself has no placeholder.
	plain bool
}

// Bind applies the override to a template. The works that come out have manifests of limit
// bytes at most. An override that no manifest is selected by, and a placeholder without a
// value, are errors: both are typing mistakes.
func (o *Override) Bind(template workv1.ManifestWorkSpec, limit int) (*Template, error) {
	return o.bind(template, limit, o.known)
}

// bind applies the override to a template. known checks the placeholders in a part of it.
func (o *Override) bind(
	template workv1.ManifestWorkSpec,
	limit int,
	known func(raw []byte, where string) error,
) (*Template, error) {
	t, work := &Template{Override: o, spec: template, limit: limit}, newEffort()
	used := make([]bool, len(o.patches))
	for i, m := range template.Workload.Manifests {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(m.Raw); err != nil {
			return nil, fmt.Errorf("manifests[%d] is not a Kubernetes object: %w", i, err)
		}
		it := part{object: object, plain: !placeholder.Match(m.Raw)}
		where := fmt.Sprintf("manifests[%d] (%s %s)", i, object.GetKind(), object.GetName())
		if err := known(m.Raw, where); err != nil {
			return nil, err
		}
		for j := range o.patches {
			p := &o.patches[j]
			if !p.selects(object) {
				continue
			}
			if err := p.fits(object); err != nil {
				return nil, err
			}
			if err := work.charge(len(m.Raw) + len(p.raw)); err != nil {
				return nil, fmt.Errorf("%s.manifests: %w", p.field, err)
			}
			used[j] = true
			it.patches = append(it.patches, p)
		}
		t.parts = append(t.parts, it)
	}
	for j, u := range used {
		if !u {
			return nil, fmt.Errorf(
				"%s.manifests: there is no such manifest (%s): the manifests are %s",
				o.patches[j].field,
				o.patches[j].wanted(),
				t.contents(),
			)
		}
		if err := known(o.patches[j].raw, o.patches[j].field+".patch"); err != nil {
			return nil, err
		}
	}
	rest, err := t.rest()
	if err != nil {
		return nil, err
	}
	t.options = placeholder.Match(rest)
	if err := known(rest, "the options of the template"); err != nil {
		return nil, err
	}
	return t, nil
}

// known checks that what placeholders stand for is known.
func (o *Override) known(raw []byte, where string) error {
	for _, found := range placeholder.FindAllSubmatch(raw, -1) {
		name := string(found[1])
		if _, ok := o.values[name]; !ok {
			meant := ""
			if near := suggest.Name(name, o.names()); near != "" {
				meant = fmt.Sprintf("; did you mean {{%s}}?", near)
			}
			return fmt.Errorf(
				"%s: {{%s}} is none of the values (%s): list it in spec.values, or correct it%s",
				where,
				name,
				text.List(o.names(), shownNames),
				meant,
			)
		}
	}
	return nil
}

func (t *Template) contents() string {
	var all []string
	for _, p := range t.parts {
		all = append(all, strings.TrimSpace(p.object.GetKind()+" "+p.object.GetName()))
	}
	return text.List(all, shownNames)
}

// rest is the template without its manifests, and without its executor: in whose name a
// work is carried out does not depend on what clusters say of themselves.
func (t *Template) rest() ([]byte, error) {
	spec := t.spec
	spec.Workload.Manifests, spec.Executor = nil, nil
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return data, nil
}

// For is what a cluster gets. The error says what is missing there, or what cannot be
// applied; it does not name the cluster.
func (t *Template) For(ctx context.Context, cluster *clusterv1.ManagedCluster) (_ workv1.ManifestWorkSpec, err error) {
	defer recovery.Into(&err)
	r := t.rendering(ctx, cluster)
	out := t.spec
	if t.options {
		rest, err := t.rest()
		if err != nil {
			return out, err
		}
		if rest, err = r.fill(rest); err != nil {
			return out, err
		}
		executor := out.Executor
		out = workv1.ManifestWorkSpec{}
		if err := json.Unmarshal(rest, &out); err != nil {
			return out, fmt.Errorf("the options of the template, with the values: %w", err)
		}
		out.Executor = executor
	}
	out.Workload.Manifests = make([]workv1.Manifest, len(t.parts))
	for i, p := range t.parts {
		raw, err := r.manifest(i, p)
		if err != nil {
			return out, err
		}
		out.Workload.Manifests[i] = workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	}
	if err := r.lacks(); err != nil {
		return out, err
	}
	if err := workcheck.Manifests(out.Workload.Manifests, t.limit); err != nil {
		return out, fmt.Errorf("what the cluster would get: %w", err)
	}
	return out, workcheck.Options("manifestConfigs", out.ManifestConfigs)
}

// DigestFor is the digest of what a cluster gets; "" where it gets nothing.
func (t *Template) DigestFor(ctx context.Context, cluster *clusterv1.ManagedCluster) string {
	spec, err := t.For(ctx, cluster)
	if err != nil {
		return ""
	}
	return workdigest.Of(spec)
}

// rendering makes what one cluster gets.
type rendering struct {
	*Template
	ctx     context.Context
	cluster *subject
	values  map[string]any
	// missing are the values that the cluster does not have.
	missing []error
	// left is by how many bytes values may make the work larger.
	left int
	// effort is what patching may still cost.
	effort effort
	// decided are the overrides that were looked at.
	decided map[*patch]bool
}

func (t *Template) rendering(ctx context.Context, cluster *clusterv1.ManagedCluster) *rendering {
	return &rendering{Template: t, ctx: ctx, cluster: newSubject(cluster), values: map[string]any{}, left: t.limit,
		effort: newEffort()}
}

// effort is how many bytes may still be read to patch the manifests of a cluster.
type effort int

func newEffort() effort { return maxPatched }

func (e *effort) charge(bytes int) error {
	if *e -= effort(bytes + perPatch); *e < 0 {
		return fmt.Errorf("the patches go through more than %d bytes of manifests for one cluster, each manifest "+
			"counted once for each of its patches: join patches, or select fewer manifests", maxPatched)
	}
	return nil
}

// lacks says which values the cluster does not have; nil for none.
func (r *rendering) lacks() error {
	slices.SortFunc(r.missing, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(r.missing...)
}

func (r *rendering) manifest(i int, p part) ([]byte, error) {
	raw, patched, err := r.patched(i, p)
	if err != nil || p.plain && (!patched || !placeholder.Match(raw)) {
		return raw, err
	}
	return r.fill(raw)
}

// patched is a manifest with the patches that the cluster gets.
func (r *rendering) patched(i int, p part) (raw []byte, patched bool, _ error) {
	raw = r.spec.Workload.Manifests[i].Raw
	for _, change := range p.patches {
		ok, seen := r.decided[change]
		if !seen {
			var err error
			if ok, err = change.matches(r.ctx, r.cluster); err != nil {
				return nil, false, err
			}
			if r.decided == nil {
				r.decided = map[*patch]bool{}
			}
			r.decided[change] = ok
		}
		if !ok {
			continue
		}
		if err := r.effort.charge(len(raw) + len(change.raw)); err != nil {
			return nil, false, fmt.Errorf("%s.manifests: %w", change.field, err)
		}
		var err error
		if raw, err = change.apply(raw, p.object, r.limit); err != nil {
			return nil, false, err
		}
		patched = true
	}
	return raw, patched, nil
}

// fill puts values in place of the placeholders in texts.
func (r *rendering) fill(raw []byte) ([]byte, error) {
	var tree any
	if err := utiljson.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("read what the cluster would get: %w", err)
	}
	tree, err := r.walk(tree)
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func (r *rendering) walk(node any) (_ any, err error) {
	switch n := node.(type) {
	case map[string]any:
		for k, v := range n {
			if n[k], err = r.walk(v); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, v := range n {
			if n[i], err = r.walk(v); err != nil {
				return nil, err
			}
		}
	case string:
		return r.text(n)
	}
	return node, nil
}

// text fills a text. One that is nothing but a placeholder becomes the value itself.
func (r *rendering) text(s string) (any, error) {
	found := placeholder.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s, nil
	}
	var out strings.Builder
	end := 0
	for _, at := range found {
		v, err := r.value(s[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		if at[0] == 0 && at[1] == len(s) {
			return v, nil
		}
		filled := fmt.Sprint(v)
		if f, ok := v.(float64); ok {
			filled = strconv.FormatFloat(f, 'f', -1, 64)
		}
		if r.left -= len(filled); r.left < 0 {
			return nil, fmt.Errorf(
				"the values make the work larger than the %d bytes that it may have: use them less often",
				r.limit,
			)
		}
		out.WriteString(s[end:at[0]])
		out.WriteString(filled)
		end = at[1]
	}
	out.WriteString(s[end:])
	return out.String(), nil
}

// value is a value of the cluster. One that is missing is noted: the author is to see all
// of them at once.
func (r *rendering) value(name string) (any, error) {
	if v, ok := r.values[name]; ok {
		return v, nil
	}
	v, err := r.resolve(r.ctx, r.cluster, name)
	if r.ctx.Err() != nil {
		return nil, r.ctx.Err()
	}
	if err != nil {
		r.missing = append(r.missing, err)
	}
	r.values[name] = v
	return v, nil
}
