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
	"github.com/hashicorp/terraform-plugin-framework/types"
	"go.opentelemetry.io/otel/trace"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Kind declares one kind of object of the hub: all that is particular to it. From it
// come its resource, its list resource and its data source, with their identity, their
// imports and moves.
// O is the object of the API.
type Kind[O kube.Object] struct {
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
	Make func(values attribute.Values) []string
	// Part says how a part of an object of another is kept; nil for a whole object.
	Part *Part[O]
	// Sole says that nobody else writes such objects: there is neither adopt nor
	// force_conflicts.
	Sole bool

	// Table are the other attributes, without those that all kinds have: adopt,
	// force_conflicts and timeouts.
	Table attribute.Table[O]

	// Timeouts say what takes the time, for each operation that has a timeout.
	Timeouts Timeouts
	// List makes the list resource; nil where there is none.
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
	// Traced says that an agent carries the object out, which then goes on with the trace in
	// which it was written.
	Traced bool
	// Waits says what a plan leaves open, for a kind with the attributes wait and ready;
	// nil for others.
	Waits *Waits
	Hooks[O]
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
// of its own. The hub is not asked what would come of a change. Reading, BeforeDelete and
// Plan see to the rest.
type Part[O kube.Object] struct {
	// Write writes the part. It returns false after an error.
	Write func(ctx context.Context, c *Change[O]) bool
	// Claim is the claim on a part that an import takes over; nil where there is none.
	Claim func(live O) Claim
	// NoImport says that there is nothing to import.
	NoImport bool
}

// Timeouts say what takes the time, as in "deleting, which waits until nothing uses it,".
// An operation without a text has no timeout.
type Timeouts struct {
	Create, Update, Delete string
	// Standard is what the first two are if the configuration sets none; 0 stands for
	// attribute.DefaultWait.
	Standard time.Duration
}

// Hooks are what a kind does beyond the life that all have. Each may be nil.
type Hooks[O kube.Object] struct {
	// What names the object in messages by its keys, where noun and name are not enough.
	What func(keys []string) string
	// Locate is where the object is on the hub, where its keys are not that.
	Locate func(keys []string) (namespace, name string)
	// KeysOf are the keys of an object, where Locate is set.
	KeysOf func(live O) []string
	// Fill puts into an object what its keys say beside its namespace and name.
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
	// Preview adds to a plan what the change does in the clusters, once the hub has taken
	// it in a dry run.
	Preview func(ctx context.Context, p Previewing[O])
	// Own adjusts how the object is written.
	Own func(values attribute.Values, o *Owned)
	// Complete puts into the object what only the configuration has, for a plan, too.
	Complete func(ctx context.Context, values attribute.Values, config tfsdk.Config, object O, diags *diag.Diagnostics)
	// Imported sets attributes of an object that is imported, before those that the table
	// reads.
	Imported func(values attribute.Values, live O) error
	// Shown is the object as the state may show it: a copy whose reports have no secrets.
	// values are the plan or the state.
	Shown func(values attribute.Values, live O) O
	// Mask hides in diagnostics what is secret. from is the plan or the state; config is
	// the state, too, where there is no configuration.
	Mask func(ctx context.Context, from, config Source, diags *diag.Diagnostics)
	// BeforeWrite runs before the object is written, which it may complete. It returns
	// false to write nothing; an error is in the change's diagnostics then.
	BeforeWrite func(ctx context.Context, c *Change[O]) bool
	// Explain says more of the error of a write than the error does. doing is what was
	// being done.
	Explain func(c *Change[O], doing string, err error) error
	// AfterWrite runs when the object was written: c.Object is as the hub has it. What it
	// sets in the plan is saved, and what the hub reports by then. After false nothing is
	// saved.
	AfterWrite func(ctx context.Context, c *Change[O]) bool
	// Follow is the wait after a write. ctx ends with the timeout.
	Follow func(ctx context.Context, c *Change[O]) Follow
	// Reading runs when the object was read, before the state takes it over. c.Prior is the
	// state, which it may complete, and may warn of what is wrong with c.Object.
	Reading func(ctx context.Context, c *Change[O])
	// AlsoRead reads what the state has beside the object, after the state has taken that
	// over.
	AlsoRead func(ctx context.Context, client *kube.Client, values attribute.Values, live O) error
	// BeforeDelete runs before the deletion. It returns false to delete nothing.
	BeforeDelete func(ctx context.Context, c *Change[O]) bool
	// Going is what goes with the object in clusters.
	Going func(c *Change[O]) *Going
	// Late says what keeps an object that should be gone, as c.Object shows it.
	Late func(ctx context.Context, c *Change[O]) (summary, detail string)
	// AfterDelete runs when the object is gone, or another's.
	AfterDelete func(ctx context.Context, c *Change[O])
}

// Change is a creation, an update or a deletion as the hooks of a kind see it.
type Change[O kube.Object] struct {
	*Resource
	// What names the object in messages, and Keys are its keys.
	What string
	Keys []string
	// Plan is what is wanted; nil in a deletion. Prior is the state; nil in a creation.
	Plan, Prior attribute.Values
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
func (k *Kind[O]) NewResource() resource.Resource {
	if k.Part != nil && k.Part.NoImport {
		return &kindResource[O]{kind: k}
	}
	return &importable[O]{kindResource[O]{kind: k}}
}

// NewListResource implements Declared.
func (k *Kind[O]) NewListResource() list.ListResource {
	if k.List == nil {
		return nil
	}
	return &listResource[O]{kind: k}
}

// NewDataSource implements Declared.
func (k *Kind[O]) NewDataSource() datasource.DataSource {
	if k.Data == nil {
		return nil
	}
	return k.query().NewDataSource()
}

// Constructors are those of the kinds' resources, list resources or data sources, whichever
// makes: Declared.NewResource, say. Kinds that have none are left out.
func Constructors[T any](kinds []Declared, makes func(Declared) T) []func() T {
	var all []func() T
	for _, kind := range kinds {
		if any(makes(kind)) != nil {
			all = append(all, func() T { return makes(kind) })
		}
	}
	return all
}

// schema is that of the resource.
func (k *Kind[O]) schema(ctx context.Context) schema.Schema {
	s := schema.Schema{MarkdownDescription: k.Description, Attributes: map[string]schema.Attribute{}}
	if !k.Sole {
		s.Attributes["adopt"], s.Attributes["force_conflicts"] = attribute.AdoptAttribute(), attribute.ForceAttribute()
	}
	maps.Copy(s.Attributes, k.Table.Attributes()) // It may have an adopt of its own.
	for _, key := range k.Keys {
		s.Attributes[key.Name] = attribute.Identifying(key.Description, key.Valid)
		if k.Make != nil {
			s.Attributes[key.Name] = attribute.Kept(key.Description)
		}
	}
	t, standard := k.Timeouts, cmp.Or(k.Timeouts.Standard, attribute.DefaultWait)
	if t.Create+t.Update+t.Delete == "" {
		return s
	}
	s.Blocks = map[string]schema.Block{"timeouts": timeouts.Block(ctx, timeouts.Opts{
		Create: t.Create != "", CreateDescription: attribute.TimeoutText(t.Create, standard),
		Update: t.Update != "", UpdateDescription: attribute.TimeoutText(t.Update, standard),
		Delete: t.Delete != "", DeleteDescription: attribute.TimeoutText(t.Delete, attribute.DefaultDelete),
	})}
	return s
}

// unwritten are the attributes whose change alone writes nothing.
func (k *Kind[O]) unwritten() []string {
	return append(k.Table.Unwritten(), "timeouts")
}

func (k *Kind[O]) keyNames() []string {
	var names []string
	for _, key := range k.Keys {
		names = append(names, key.Name)
	}
	return names
}

func (k *Kind[O]) what(keys []string) string {
	if k.What != nil {
		return k.What(keys)
	}
	return fmt.Sprintf("%s %q", k.Noun, strings.Join(keys, "/"))
}

func (k *Kind[O]) locate(keys []string) (namespace, name string) {
	switch {
	case k.Locate != nil:
		return k.Locate(keys)
	case len(keys) == 1:
		return "", keys[0]
	}
	return keys[0], keys[1]
}

// describe says in the span of an operation which object it is about.
func (k *Kind[O]) describe(ctx context.Context, keys []string) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		namespace, name := k.locate(keys)
		span.SetAttributes(tracing.ObjectKindKey.String(kube.KindName(k.Empty)),
			tracing.NamespaceKey.String(namespace), tracing.ObjectNameKey.String(name))
	}
}

// keysOf are the keys of an object that was read.
func (k *Kind[O]) keysOf(object O) []string {
	switch {
	case k.KeysOf != nil:
		return k.KeysOf(object)
	case len(k.Keys) == 1:
		return []string{object.GetName()}
	}
	return []string{object.GetNamespace(), object.GetName()}
}

// empty is an object in which nothing is set.
func (k *Kind[O]) empty() O {
	object, _ := kube.Fresh(k.Empty).(O)
	return object
}

// fresh is an object in which nothing is set but what its keys say.
func (k *Kind[O]) fresh(keys []string) O {
	object := k.empty()
	namespace, name := k.locate(keys)
	object.SetNamespace(namespace)
	object.SetName(name)
	if k.Fill != nil {
		k.Fill(keys, object)
	}
	return object
}

// owned is the object of a plan or a state, as it is written.
func (k *Kind[O]) owned(i *instance[O], object O) Owned {
	force, _ := i.read["force_conflicts"].(types.Bool)
	o := Owned{What: i.what(), id: strings.Join(i.keys, "/"), Places: k.Table.Places(), Write: Write{
		Object: object, Manager: hub.FieldManager, Foreign: k.Foreign, Traced: k.Traced,
		Adopt: i.read.Bool("adopt"), Force: force.IsNull() || force.ValueBool(),
		Unwanted: func(live kube.Object) [][]string {
			there, _ := live.(O)
			return k.Table.Unwanted(i.object(), there)
		},
	}}
	maps.Copy(o.Places, k.Places)
	if k.Refuse != nil {
		o.Write.Refuse = func(live kube.Object) error {
			there, _ := live.(O)
			return k.Refuse(there)
		}
	}
	if k.Own != nil {
		k.Own(i.values, &o)
	}
	return o
}
