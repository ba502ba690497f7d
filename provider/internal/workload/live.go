package workload

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Live is the content as the hub has it.
type Live struct {
	Manifests []workv1.Manifest
	// Annotations are those of the object that has the manifests.
	Annotations map[string]string
}

// Read are the objects of a work: those that may be read, and those that its
// annotation or the caller says are not to be.
func (l Live) Read(writeOnly []string) (open, hidden []Object, err error) {
	noted := WriteOnlyOf(l.Annotations)
	for i, x := range l.Manifests {
		parsed, err := ObjectFromJSON(x.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("read manifest %d on the hub: %w", i, err)
		}
		if key := parsed.Key(); slices.Contains(writeOnly, key) || slices.Contains(noted, key) {
			hidden = append(hidden, parsed)
		} else {
			open = append(open, parsed)
		}
	}
	return open, hidden, nil
}

// WriteOnlyOf are the keys of the objects that must not be read back, as the
// annotations of their work say. Text that can't be read says nothing.
func WriteOnlyOf(annotations map[string]string) []string {
	var keys []string
	if err := json.Unmarshal([]byte(annotations[work.WriteOnlyAnnotation]), &keys); err != nil {
		return nil
	}
	return keys
}

// IsWriteOnly reports whether an object that an agent reports on must not be read
// back, as the annotations of its work say.
func IsWriteOnly(annotations map[string]string, reported workv1.ManifestResourceMeta) bool {
	return slices.Contains(WriteOnlyOf(annotations), keyOf(reported))
}

// Import is the content of a work that no configuration of this state has written
// yet: see imported.
func Import(live Live) (Content, error) {
	content := None()
	open, hidden, err := live.Read(nil)
	if err == nil && len(open) > 0 {
		err = content.adoptTwice(open)
	}
	if err == nil {
		content.Fields = content.observedFields(None(), hidden)
	}
	return content, err
}

// Observe brings the content up to date with what the hub has, and keeps its
// wording where it means the same.
func (c *Content) Observe(live Live) error {
	before := *c
	open, hidden, err := live.Read(slices.Collect(maps.Keys(FieldsFrom(c.Fields).WriteOnly())))
	if err != nil {
		return err
	}
	if mine, err := c.open(); err != nil || !same(mine, open) {
		if err := c.adopt(open); err != nil {
			return err
		}
	}
	if fields := c.observedFields(before, hidden); !fields.Equal(c.Fields) {
		c.Fields = fields
	}
	return nil
}

// adopt takes over live objects: those that Objects has under the same names
// there, and the rest in Manifests. What may be secret and was written by
// somebody else goes to Manifests, for plans show Objects.
func (c *Content) adopt(live []Object) error {
	if c.imported() {
		return c.adoptTwice(live)
	}
	mine, _ := c.of("objects") // A state that can't be read any more differs.
	var texts, values []Object
	for _, object := range live {
		i := slices.IndexFunc(mine, func(x Object) bool { return x.Key() == object.Key() })
		onlyObjects := c.Manifests.IsNull() && !isNull(c.Objects)
		foreign := i < 0 || !EqualObjects(mine[i:i+1], []Object{object})
		if (i >= 0 || onlyObjects) && (!foreign || !object.MayBeSecret()) {
			values = append(values, object)
		} else {
			texts = append(texts, object)
		}
	}
	own, err := c.of("manifests")
	if err != nil || !same(own, texts) {
		if c.Manifests, err = Texts(texts); err != nil {
			return err
		}
	}
	if !isNull(c.Objects) && !same(mine, values) {
		c.Objects, err = hclObjects(values)
	}
	return err
}

// adoptTwice is adopt for an import: see imported.
func (c *Content) adoptTwice(live []Object) error {
	shown := live
	if slices.ContainsFunc(live, Object.MayBeSecret) {
		shown = nil
	}
	texts, err := Texts(live)
	values, problem := hclObjects(shown)
	if err := errors.Join(err, problem); err != nil {
		return err
	}
	c.Manifests, c.Objects = texts, values
	return nil
}

func (c *Content) observedFields(before Content, hidden []Object) types.Map {
	listed, err := c.listed()
	if err != nil {
		return c.Fields
	}
	// An object of Objects that somebody else has made secret is in Manifests, as it is now.
	shown := before.shown()
	listed = slices.DeleteFunc(listed, func(x Object) bool { return shown[x.Key()] })
	was, _ := before.open()
	fields := ListFields(listed, was, FieldsFrom(before.Fields), c.sensitive())
	for _, object := range hidden {
		fields.AddWriteOnly(object.Key(), c.version())
	}
	return FieldsValue(fields)
}

// minSecret is the length, in bytes, of the shortest value that is masked in
// messages. Shorter ones would mask half of every sentence.
const minSecret = 3

// Mask hides in diagnostics about a plan or a state what its objects and the write-only
// ones of the configuration have of secrets.
func Mask(ctx context.Context, of, config crud.Source, diags *diag.Diagnostics) {
	if len(*diags) > 0 {
		Of(ctx, of, &diag.Diagnostics{}).with(ctx, config).Mask(diags)
	}
}

// Mask replaces in diagnostics what fields masks, and all values of the write-only
// manifests: a server or an agent may quote them.
func (c Content) Mask(diags *diag.Diagnostics) {
	masker := c.masker()
	for i, d := range *diags {
		summary, detail := masker.Text(d.Summary()), masker.Text(d.Detail())
		if summary == d.Summary() && detail == d.Detail() {
			continue
		}
		var replaced diag.Diagnostic = diag.NewErrorDiagnostic(summary, detail)
		if d.Severity() == diag.SeverityWarning {
			replaced = diag.NewWarningDiagnostic(summary, detail)
		}
		if at, ok := d.(diag.DiagnosticWithPath); ok {
			replaced = diag.WithPath(at.Path(), replaced)
		}
		(*diags)[i] = replaced
	}
}

// with is the content with the write-only manifests of a configuration.
func (c Content) with(ctx context.Context, config crud.Source) Content {
	if config.GetAttribute(ctx, path.Root("manifests_wo"), &c.WriteOnly).HasError() {
		c.WriteOnly = None().WriteOnly
	}
	return c
}

// Masked is a message about a work whose content only the hub knows here: any value that
// a server refuses may be one that Terraform hides elsewhere, so none is quoted.
func (l Live) Masked(message string) string {
	open, hidden, _ := l.Read(nil)
	return maskerOf(open, open, hidden, Sensitive{}).Text(message)
}

// Masker hides what is not to be shown of a work as the hub has it. c is what the state
// says of it.
func (l Live) Masker(c Content) Masker {
	open, hidden, err := l.Read(slices.Collect(maps.Keys(FieldsFrom(c.Fields).WriteOnly())))
	if err != nil {
		return maskerOf(nil, nil, nil, Sensitive{})
	}
	keys := c.shown()
	shown := slices.DeleteFunc(slices.Clone(open), func(x Object) bool { return !keys[x.Key()] })
	return maskerOf(open, shown, hidden, c.sensitive())
}

// masker hides what is not to be shown of the content.
func (c Content) masker() Masker {
	// What can't be read has nothing to hide.
	open, _ := c.open()
	shown, _ := c.of("objects")
	closed, _ := c.of("manifests_wo")
	return maskerOf(open, shown, closed, c.sensitive())
}

// Masker hides in texts of servers and agents what is not to be shown.
type Masker struct {
	secrets *strings.Replacer
	// shown are values of Objects. Terraform may hide any of them, and does not say
	// which, so what a server says of an invalid one does not quote it.
	shown map[string]bool
}

// maskerOf hides the secrets of open objects, the values of shown ones where they are
// quoted, and all values of closed ones.
func maskerOf(open, shown, closed []Object, sensitive Sensitive) Masker {
	var secrets []string
	for _, object := range open {
		secrets = append(secrets, object.Secrets(sensitive)...)
	}
	for _, object := range closed {
		secrets = append(secrets, object.Values()...)
	}
	m := Masker{secrets: replacing(secrets), shown: map[string]bool{}}
	for _, object := range shown {
		for _, value := range object.Values() {
			m.shown[value] = true
		}
	}
	return m
}

// Text is a text without what is not to be shown.
func (m Masker) Text(text string) string {
	text = m.secrets.Replace(text)
	if !strings.Contains(text, invalidValue) {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, invalidValue)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(invalidValue)
		value := valueAt(rest)
		text = rest[len(value):]
		plain, err := strconv.Unquote(value)
		switch {
		case strings.HasSuffix(value, "}") || strings.HasSuffix(value, "]"):
			value = "(left out)"
		case err == nil && m.shown[plain], value != "" && m.shown[value]:
			value = Hidden
		}
		out.WriteString(value)
	}
}

// Conditions are conditions without what is not to be shown.
func (m Masker) Conditions(conditions []metav1.Condition) []metav1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Message = m.Text(conditions[i].Message)
	}
	return conditions
}

const (
	// invalidValue is what API servers write before a value that they refuse.
	invalidValue = "nvalid value: "
	// Hidden stands for what is not to be shown.
	Hidden = "(sensitive)"
)

// valueAt is the value at the beginning of a text, as API servers write it: a text in
// quotes, a structure in brackets, which may have a type before it, or a word.
func valueAt(text string) string {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return quoted
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '`':
			if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
				i += len(quoted) - 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return text[:i+1]
			}
		case ' ', ':', ',':
			if depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}

// replacing replaces secrets, also as they look in base64 and in quotes.
func replacing(secrets []string) *strings.Replacer {
	var all []string
	for _, secret := range secrets {
		forms := []string{
			secret, base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(strconv.Quote(secret), `"`),
		}
		if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil {
			forms = append(forms, string(decoded))
		}
		for _, form := range forms {
			if len(form) >= minSecret {
				all = append(all, form)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(all) {
		pairs = append(pairs, secret, Hidden)
	}
	return strings.NewReplacer(pairs...)
}
