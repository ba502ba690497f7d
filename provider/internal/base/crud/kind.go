package crud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Kind declares one kind of object of the hub: all that is particular to it. From it
// come its resource, its list resource and its data source, with their identity, their
// imports and moves.
//
// M is what the plan and the state are read into: attribute.Values where Table says what
// becomes of the attributes, or a model with tfsdk tags. O is the object of the API.
type Kind[M any, O kube.Object] struct {
	// Type is the resource's type without "muster_".
	Type string
	// Noun is what messages call the object, such as "placement".
	Noun string
	// Keys are the attributes that name the object, in the order of its import ID. The
	// last one is its name, and the first of two its namespace.
	Keys []Key
	// Description documents the resource.
	Description string
	// Empty is an empty object.
	Empty O
	// Make makes up the keys of a new object; nil where the configuration names it. Keys
	// that are made up are computed. Where a plan leaves them open, an update writes a new
	// object, and leaves the former one to AfterWrite.
	Make func(m *M) []string
	// Part says how a part of an object of another is kept; nil for a whole object.
	Part *Part[M, O]
	// Sole says that nobody else writes such objects: there is neither adopt nor
	// force_conflicts.
	Sole bool

	// Table are the other attributes, without those that all kinds have: adopt,
	// force_conflicts and timeouts.
	Table attribute.Table[O]
	// Model is in place of Table for a model with tfsdk tags.
	Model *Conversion[M, O]

	// Timeouts say what takes the time, for each operation that has a timeout.
	Timeouts Timeouts
	// List makes the list resource; nil where there is none. Type, NamespaceAttribute
	// and Adopt are filled in.
	List *List[O]
	// Data makes the data source; nil where there is none.
	Data *Data[O]

	// Places are attributes whose names are not those of their fields, by a text of the
	// hub's refusals. The table's are known.
	Places map[string]string
	// Foreign tells which fields stay with the managers that the first write takes over
	// from, as in Write.
	Foreign func(path string) bool
	// InCluster says that the namespace is that of a managed cluster, which a write waits
	// for.
	InCluster bool
	// Waits says what a plan leaves open, for a kind with the attributes wait and ready;
	// nil for others.
	Waits *Waits
	Hooks[M, O]
}

// Waits says what a plan leaves open of a kind that waits. ready is known after the apply
// when the plan writes, when a wait was not met, and when it changes; what the hub
// reports is, when the plan writes or a wait was not met.
type Waits struct {
	// Reported are the attributes that the hub reports, beside those of the table.
	Reported []string
	// Again are attributes whose change makes it wait again, beside wait.
	Again []string
}

// Key is an attribute that names an object.
type Key struct {
	Name, Description string
	// Valid checks the name.
	Valid validator.String
	// DataDescription documents it in the data source; Description does if it is empty.
	DataDescription string
}

// Part is a part of an object that stays when the resource goes, and that has an owner
// of its own. Reading, BeforeDelete and Plan see to the rest.
type Part[M any, O kube.Object] struct {
	// Write writes the part. It returns false after an error.
	Write func(ctx context.Context, c *Change[M, O]) bool
	// Claim is the claim on a part that an import takes over; nil where there is none.
	Claim func(live O) Claim
}

// Timeouts say what takes the time, as in "deleting, which waits until nothing uses it,".
// An operation without a text has no timeout.
type Timeouts struct {
	Create, Update, Delete string
	// Standard is what the first two are if the configuration sets none; 0 stands for
	// attribute.DefaultWait.
	Standard time.Duration
}

// Conversion says what becomes of a model with tfsdk tags, which has all attributes.
type Conversion[M any, O kube.Object] struct {
	// Attributes are those beside the keys, adopt and force_conflicts.
	Attributes func() map[string]schema.Attribute
	// Object is what the hub gets of a model.
	Object func(m *M) O
	// Observe brings the state up to date with the object.
	Observe func(m *M, live O) error
	// Import makes the state of an object.
	Import func(live O) (*M, error)
	// Unwanted is as in Write; nil finds nothing.
	Unwanted func(m *M, live O) [][]string
	// Unwritten are attributes whose change alone writes nothing to the hub.
	Unwritten []string
}

// Hooks are what a kind does beyond the life that all have. Each may be nil.
type Hooks[M any, O kube.Object] struct {
	// What names the object in messages by its keys, where noun and name are not enough.
	What func(keys []string) string
	// Locate is where the object is on the hub, where its keys are not that.
	Locate func(keys []string) (namespace, name string)
	// KeysOf are the keys of an object, where Locate is set.
	KeysOf func(live O) []string
	// Fill puts into an object what its keys say beside its namespace and name, for a
	// kind with a table.
	Fill func(keys []string, object O)
	// Refuse says why an object that exists can't be managed.
	Refuse func(live O) error
	// Validate checks how attributes go together.
	Validate func(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics)
	// KeepWording plans attributes as they are in the state where that means the same.
	KeepWording func(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse)
	// Plan completes and checks a plan, of a deletion, too. It returns false where the
	// hub shall not be asked what would come of the change.
	Plan func(ctx context.Context, r *Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool
	// Own adjusts how the object is written.
	Own func(m *M, o *Owned)
	// Complete puts into the object what only the configuration has, for a plan, too.
	Complete func(ctx context.Context, m *M, config tfsdk.Config, object O, diags *diag.Diagnostics)
	// Imported sets attributes of an object that is imported, before those that the table
	// reads.
	Imported func(m *M, live O) error
	// Shown is the object as the state may show it: a copy whose reports have no secrets.
	// m is the plan or the state. It is for kinds with a table.
	Shown func(m *M, live O) O
	// Mask hides in diagnostics what is secret. from is the plan or the state; config is
	// the state, too, where there is no configuration.
	Mask func(ctx context.Context, from, config Source, diags *diag.Diagnostics)
	// BeforeWrite runs before the object is written, which it may complete. It returns
	// false to write nothing; an error is in the change's diagnostics then.
	BeforeWrite func(ctx context.Context, c *Change[M, O]) bool
	// Explain says more of the error of a write than the error does. doing is what was
	// being done.
	Explain func(c *Change[M, O], doing string, err error) error
	// AfterWrite runs when the object was written: c.Object is as the hub has it. What it
	// sets in the plan is saved, and what the hub reports by then. After false nothing is
	// saved.
	AfterWrite func(ctx context.Context, c *Change[M, O]) bool
	// Follow is the wait after a write. ctx ends with the timeout.
	Follow func(ctx context.Context, c *Change[M, O]) Follow
	// Reading runs when the object was read, before AfterRead, for what needs the hub or
	// the private part of the state. c.Prior is the state, which it may complete.
	Reading func(ctx context.Context, c *Change[M, O])
	// AfterRead runs when the object was read, before the state takes it over.
	AfterRead func(ctx context.Context, m *M, live O, diags *diag.Diagnostics)
	// Warn warns at a refresh of what is wrong with an object on the hub.
	Warn func(ctx context.Context, r *Resource, m *M, live O, diags *diag.Diagnostics)
	// AlsoRead reads what the state has beside the object, after the state has taken that
	// over.
	AlsoRead func(ctx context.Context, client *kube.Client, m *M, live O) error
	// BeforeDelete runs before the deletion. It returns false to delete nothing.
	BeforeDelete func(ctx context.Context, c *Change[M, O]) bool
	// Going is what goes with the object in clusters.
	Going func(c *Change[M, O]) *Going
	// Late says what keeps an object that should be gone, as c.Object shows it.
	Late func(ctx context.Context, c *Change[M, O]) (summary, detail string)
	// AfterDelete runs when the object is gone, or another's.
	AfterDelete func(ctx context.Context, c *Change[M, O])
}

// Change is a creation, an update or a deletion as the hooks of a kind see it.
type Change[M any, O kube.Object] struct {
	*Resource
	// What names the object in messages, and Keys are its keys.
	What string
	Keys []string
	// Plan is what is wanted; nil in a deletion. Prior is the state; nil in a creation.
	Plan, Prior *M
	// Changes are the attributes that change.
	Changes attribute.Changes
	// Config is the configuration, with its write-only attributes; empty in a deletion.
	Config tfsdk.Config
	// Object is what is written, and then what the hub has.
	Object O
	Client *kube.Client
	// TakeReports takes over what the hub reports of Object, where the plan left it open;
	// nil in a deletion. It is called after the write, and after the wait where Follow has
	// no Report of its own.
	TakeReports func()
	// Timeout is how long the operation may take, since Began.
	Timeout     time.Duration
	Began       time.Time
	Diagnostics *diag.Diagnostics
	// Private is the private part of the state; nil in a creation.
	Private PrivateReader
	// NewPrivate is the private part as it will be; nil in a deletion.
	NewPrivate PrivateWriter
}

// Source is a configuration, a plan or a state.
type Source interface {
	GetAttribute(ctx context.Context, at path.Path, target any) diag.Diagnostics
}

// Declared is a kind of any model and object, as the provider lists it.
type Declared interface {
	NewResource() resource.Resource
	// NewListResource and NewDataSource are nil where there is none.
	NewListResource() list.ListResource
	NewDataSource() datasource.DataSource
}

// NewResource implements Declared.
func (k *Kind[M, O]) NewResource() resource.Resource { return &kindResource[M, O]{kind: k} }

// NewListResource implements Declared.
func (k *Kind[M, O]) NewListResource() list.ListResource {
	if k.List == nil {
		return nil
	}
	l := *k.List
	l.Type, l.Adopt = k.Type, func(object O) (Model, error) { return k.imported(object, l.Without...) }
	if len(k.Keys) > 1 {
		l.NamespaceAttribute = k.Keys[0].Name
	}
	return NewList(l)
}

// NewDataSource implements Declared.
func (k *Kind[M, O]) NewDataSource() datasource.DataSource {
	if k.Data == nil {
		return nil
	}
	return &kindDataSource[M, O]{kind: k}
}

// Resources are the constructors of the kinds' resources.
func Resources(kinds []Declared) []func() resource.Resource {
	var all []func() resource.Resource
	for _, kind := range kinds {
		all = append(all, kind.NewResource)
	}
	return all
}

// ListResources are the constructors of the kinds' list resources.
func ListResources(kinds []Declared) []func() list.ListResource {
	var all []func() list.ListResource
	for _, kind := range kinds {
		if kind.NewListResource() != nil {
			all = append(all, kind.NewListResource)
		}
	}
	return all
}

// DataSources are the constructors of the kinds' data sources.
func DataSources(kinds []Declared) []func() datasource.DataSource {
	var all []func() datasource.DataSource
	for _, kind := range kinds {
		if kind.NewDataSource() != nil {
			all = append(all, kind.NewDataSource)
		}
	}
	return all
}

// attributes are those of the resource's schema.
func (k *Kind[M, O]) attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	if !k.Sole {
		attributes["adopt"], attributes["force_conflicts"] = attribute.AdoptAttribute(), attribute.ForceAttribute()
	}
	maps.Copy(attributes, k.Table.Attributes())
	if k.Model != nil {
		maps.Copy(attributes, k.Model.Attributes())
	}
	for _, key := range k.Keys {
		attributes[key.Name] = attribute.Identifying(key.Description, key.Valid)
		if k.Make != nil {
			attributes[key.Name] = attribute.Kept(key.Description)
		}
	}
	return attributes
}

// blocks are those of the resource's schema.
func (k *Kind[M, O]) blocks(ctx context.Context) map[string]schema.Block {
	if (k.Timeouts == Timeouts{}) {
		return nil
	}
	text := func(what string, standard time.Duration) string {
		if what == "" {
			return ""
		}
		return attribute.TimeoutText(what, standard)
	}
	t, standard := k.Timeouts, cmp.Or(k.Timeouts.Standard, attribute.DefaultWait)
	return map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{
		Create: t.Create != "", CreateDescription: text(t.Create, standard),
		Update: t.Update != "", UpdateDescription: text(t.Update, standard),
		Delete: t.Delete != "", DeleteDescription: text(t.Delete, attribute.DefaultDelete),
	})}
}

// unwritten are the attributes whose change alone writes nothing.
func (k *Kind[M, O]) unwritten() []string {
	if k.Model != nil {
		return k.Model.Unwritten
	}
	return append(k.Table.Unwritten(), "timeouts")
}

func (k *Kind[M, O]) keyNames() []string {
	var names []string
	for _, key := range k.Keys {
		names = append(names, key.Name)
	}
	return names
}

func (k *Kind[M, O]) what(keys []string) string {
	if k.What != nil {
		return k.What(keys)
	}
	return fmt.Sprintf("%s %q", k.Noun, strings.Join(keys, "/"))
}

func (k *Kind[M, O]) locate(keys []string) (namespace, name string) {
	switch {
	case k.Locate != nil:
		return k.Locate(keys)
	case len(keys) == 1:
		return "", keys[0]
	}
	return keys[0], keys[1]
}

// keysOf are the keys of an object that was read.
func (k *Kind[M, O]) keysOf(object O) []string {
	switch {
	case k.KeysOf != nil:
		return k.KeysOf(object)
	case len(k.Keys) == 1:
		return []string{object.GetName()}
	}
	return []string{object.GetNamespace(), object.GetName()}
}

// fresh is an empty object at a place.
func (k *Kind[M, O]) fresh(keys []string) O {
	object, _ := kube.Fresh(k.Empty).(O)
	namespace, name := k.locate(keys)
	object.SetNamespace(namespace)
	object.SetName(name)
	if k.Fill != nil {
		k.Fill(keys, object)
	}
	return object
}

// owned is the object of a plan or a state, as it is written.
func (k *Kind[M, O]) owned(i *instance[M, O]) Owned {
	o := Own(i.object(), i.What(), strings.Join(i.keys, "/"), i.bool("adopt"), i.bool("force_conflicts"))
	o.Places = k.Table.Places()
	for text, name := range k.Places {
		o.Places[text] = name
	}
	o.Write.Foreign = k.Foreign
	o.Write.Unwanted = func(live kube.Object) [][]string {
		object, ok := live.(O)
		if !ok {
			return nil
		}
		return i.unwanted(object)
	}
	if k.Refuse != nil {
		o.Write.Refuse = func(live kube.Object) error {
			object, ok := live.(O)
			if !ok {
				return nil
			}
			return k.Refuse(object)
		}
	}
	if k.Own != nil {
		k.Own(i.model, &o)
	}
	return o
}

// limit is the timeout of an operation, and whether it has one.
func (k *Kind[M, O]) limit(
	ctx context.Context, i *instance[M, O], operation string, diags *diag.Diagnostics,
) (timeout time.Duration, limited bool) {
	of, ok := i.all["timeouts"].(timeouts.Value)
	if !ok {
		return attribute.DefaultDelete, false
	}
	var problems diag.Diagnostics
	standard := cmp.Or(k.Timeouts.Standard, attribute.DefaultWait)
	switch operation {
	case "create":
		limited = k.Timeouts.Create != ""
		timeout, problems = of.Create(ctx, standard)
	case "update":
		limited = k.Timeouts.Update != ""
		timeout, problems = of.Update(ctx, standard)
	default:
		limited = true
		timeout, problems = of.Delete(ctx, attribute.DefaultDelete)
	}
	diags.Append(problems...)
	return timeout, limited
}
