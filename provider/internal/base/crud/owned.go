package crud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Nothing on the hub is taken over in silence. Each object that a resource
// writes carries the resource's mark, and the private part of the state knows it:
// so a resource tells its own object from one that somebody else made, or that
// another state has taken over.

// Owned is one object of the hub as a resource wants it.
type Owned struct {
	// Write is the object, and what of it may be taken over without being asked.
	Write Write
	// What names it: placement "default/p". id is its import ID.
	What, id string
	// Discreet keeps its values out of messages.
	Discreet bool
	// Places are attributes whose names are not those of their fields, by a text of
	// the hub's refusals, such as the field's path.
	Places map[string]string
}

type (
	// PrivateReader is the private part of a resource's state, as the framework hands
	// it in.
	PrivateReader interface {
		GetKey(context.Context, string) ([]byte, diag.Diagnostics)
	}
	// PrivateWriter is the same, as the framework takes it back.
	PrivateWriter interface {
		SetKey(context.Context, string, []byte) diag.Diagnostics
	}
)

// claimKey is where the claim is in the private state.
const claimKey = "claim"

// ClaimOf is the claim in the private state; empty when there is none.
func ClaimOf(ctx context.Context, private PrivateReader, diags *diag.Diagnostics) Claim {
	text, problems := private.GetKey(ctx, claimKey)
	diags.Append(problems...)
	return ParseClaim(text)
}

// KeepClaim puts a claim into the private state.
func KeepClaim(ctx context.Context, private PrivateWriter, claim Claim, diags *diag.Diagnostics) {
	text, err := claim.Encode()
	if err != nil {
		diags.AddError("Cannot record whose the object is", err.Error())
		return
	}
	diags.Append(private.SetKey(ctx, claimKey, text)...)
}

// Create makes the object on the hub. A refusal is explained in the error.
func (o Owned) Create(ctx context.Context, client *kube.Client, private PrivateWriter, diags *diag.Diagnostics) error {
	claim, from, err := o.Write.Create(ctx, client)
	if err != nil {
		return o.explained(client, err)
	}
	KeepClaim(ctx, private, claim, diags)
	if from != "" {
		diags.AddWarning("An existing object was taken over from another Terraform resource",
			fmt.Sprintf("The hub had %s, marked by another Terraform resource. If that resource is still in a state, "+
				"its next plan reports this and it no longer changes the object: remove it there with terraform "+
				"state rm. If its state is lost, nothing more is needed.", o.What))
	}
	return nil
}

// Update writes the object again. A refusal is explained in the error.
func (o Owned) Update(
	ctx context.Context, client *kube.Client, was PrivateReader, private PrivateWriter, diags *diag.Diagnostics,
) error {
	claim, err := o.Write.Update(ctx, client, ClaimOf(ctx, was, diags))
	if err != nil {
		return o.explained(client, err)
	}
	KeepClaim(ctx, private, claim, diags)
	return nil
}

// recognize compares an object that was read with what the resource remembers of
// it. It warns when the object is another's by now.
func (r *Resource) recognize(
	ctx context.Context, object kube.Object, what string, was PrivateReader, private PrivateWriter,
	diags *diag.Diagnostics,
) {
	claim := ClaimOf(ctx, was, diags)
	r.Hub.NoteRead(object, object.GetNamespace(), object.GetName(), !claim.Holds(object))
	switch {
	case !claim.Holds(object):
		diags.AddWarning("Taken over by another owner: "+what,
			fmt.Sprintf("On the hub %s it now belongs to another owner: %s. This resource no longer changes or "+
				"deletes it, and an update fails. %s",
				r.Hub.Client(diags).Host(), DescribeWriters(object, hub.FieldManager, time.Now()), takenRemedy(object)))
	case claim.UID != object.GetUID():
		claim.UID = object.GetUID()
		KeepClaim(ctx, private, claim, diags)
	}
}

// Left turns the error that an object is another's into a warning.
func Left(client *kube.Client, what string, err error, diags *diag.Diagnostics) error {
	var taken *TakenError
	if !errors.As(err, &taken) {
		return err
	}
	diags.AddWarning("Not deleted: "+what,
		fmt.Sprintf("The hub %s has it, but it no longer belongs to this resource: %s. It was left as it is and only "+
			"removed from this state.",
			client.Host(), DescribeWriters(taken.Live, hub.FieldManager, time.Now())))
	return nil
}

// takenRemedy is what to do about an object that is another's by now.
func takenRemedy(object kube.Object) string {
	if _, token := object.(*corev1.Secret); token {
		return "Remove the resource here (terraform state rm), and import the token again if it is to be managed here."
	}
	return "Remove the resource here (terraform state rm), or take the object back with adopt = true."
}

// explained puts a refusal into words; other errors stay as they are.
func (o Owned) explained(client *kube.Client, err error) error {
	var (
		exists   *ExistsError
		deleting *DeletingError
		taken    *TakenError
		borrowed *BorrowedError
		never    *UnmanageableError
		now      = time.Now()
	)
	switch {
	case errors.As(err, &never):
		detail := attribute.Capitalize(never.Error()) + "."
		return &hub.RefusalError{Err: err, Summary: "Can't be managed: " + o.What, Detail: detail}
	case errors.As(err, &borrowed):
		return &hub.RefusalError{Err: err, Summary: ofAnother + o.What,
			Detail: fmt.Sprintf("%s\n\nNothing was changed. %s",
				o.Exists(client, borrowed.Live, borrowed.Differences, now), waysOfBorrowed)}
	case errors.As(err, &exists):
		return &hub.RefusalError{Err: err, Summary: "Exists already: " + o.What,
			Detail: fmt.Sprintf("%s\n\nNothing was changed. %s", o.Exists(client, exists.Live, exists.Differences, now),
				o.ways())}
	case errors.As(err, &deleting):
		return &hub.RefusalError{Err: err, Summary: "Still being deleted: " + o.What,
			Detail: fmt.Sprintf("The hub %s still has the object of this name that was there before, so it can't be "+
				"created yet.\n%s\n\nApply again when it is gone.",
				client.Host(), hub.DescribeDeletion(deleting.Live, now))}
	case errors.As(err, &taken):
		return &hub.RefusalError{Err: err, Summary: "Taken over by another owner: " + o.What,
			Detail: fmt.Sprintf("On the hub %s it now belongs to another owner: %s.\n\nNothing was changed. %s",
				client.Host(), DescribeWriters(taken.Live, hub.FieldManager, now), takenRemedy(taken.Live))}
	}
	return err
}

// shownDifferences is how many differences a message lists.
const shownDifferences = 8

// Exists tells that the object is there, in what it differs, and whose it is.
func (o Owned) Exists(client *kube.Client, live kube.Object, differences []Difference, now time.Time) string {
	var lines []string
	for _, d := range differences {
		lines = append(lines, d.Text(!o.Discreet))
	}
	differs := "it differs from this configuration"
	if len(lines) > 0 {
		differs += ": " + strings.Join(text.First(lines, shownDifferences), "; ")
	}
	return fmt.Sprintf("The hub %s has %s already, and %s. It was %s.", client.Host(), o.What, differs,
		DescribeWriters(live, hub.FieldManager, now))
}

const (
	// ofAnother begins the summary of what is told of an object that was imported while
	// it carried another resource's mark.
	ofAnother = "Managed by another Terraform resource: "
	// waysOfBorrowed are what can be done about it.
	waysOfBorrowed = "To take it over, remove the other resource from its state (terraform state rm), if there is " +
		"one, and set adopt = true here, for the first change at least. " +
		"To leave it to the other one, remove this resource from the state."
)

// ways are what can be done about an object that exists.
func (o Owned) ways() string {
	return fmt.Sprintf("To manage it as it is, import it, with the resource's address that Terraform prints here as "+
		"ADDRESS: terraform import ADDRESS %s\n"+
		"To change it to this configuration, set adopt = true. To leave it to its owner, choose another name.", o.id)
}

// schemaOf is what attributeOf reads of a schema.
type schemaOf interface {
	TypeAtPath(ctx context.Context, at path.Path) (attr.Type, diag.Diagnostics)
}

// fieldPath is a field of an object in the server's words.
var fieldPath = regexp.MustCompile(`\b(?:metadata|spec|status)\.([A-Za-z]+)`)

// attributeOf finds the attribute that a refusal is about; nil when it does not tell.
// Attributes have the names of their fields, save for those in places.
func attributeOf(ctx context.Context, schema schemaOf, places map[string]string, refusal string) *path.Path {
	for _, text := range slices.Sorted(maps.Keys(places)) {
		if strings.Contains(refusal, text) {
			at := path.Root(places[text])
			return &at
		}
	}
	for _, match := range fieldPath.FindAllStringSubmatch(refusal, -1) {
		at := path.Root(snakeCase(match[1]))
		if _, diags := schema.TypeAtPath(ctx, at); !diags.HasError() {
			return &at
		}
	}
	return nil
}

// snakeCase writes numberOfClusters as number_of_clusters.
func snakeCase(name string) string {
	var out strings.Builder
	for i, letter := range name {
		if unicode.IsUpper(letter) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(letter))
	}
	return out.String()
}

// deleteAndWait deletes an object, if it is still the claimant's, and waits until it is
// gone. One that is another's by now is left, with a *TakenError. obj gets the object as
// it was seen last.
func deleteAndWait(
	ctx context.Context, client *kube.Client, obj kube.Object, namespace, name string, claim Claim,
) error {
	for attempt := 0; ; attempt++ {
		err := createRead(client, attempt)(ctx, obj, namespace, name)
		if kube.IsNotFound(err, name) {
			return nil
		}
		if err != nil {
			return err
		}
		if !claim.Holds(obj) {
			if attempt == 0 {
				continue // It may be older than the claim.
			}
			return &TakenError{Live: obj}
		}
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		deletion, err := client.DeleteIf(ctx, obj, namespace, name,
			metav1.Preconditions{UID: &uid, ResourceVersion: &version})
		if isStale(err) && attempt+1 < createAttempts {
			continue
		}
		if err != nil || deletion.Gone {
			return err
		}
		return client.WaitGone(ctx, obj, namespace, name, deletion.UID)
	}
}

// createRead reads an object for a write that depends on its resource version. The first
// time it may be some seconds old; if that is too old, the write is refused, and the
// next one gets the object as it is.
func createRead(
	client *kube.Client, attempt int,
) func(ctx context.Context, obj kube.Object, namespace, name string) error {
	if attempt == 0 {
		return client.Lookup
	}
	return client.Get
}

// Release gives up what the claimant has set of an object, and leaves the object.
// bare names it and sets nothing.
func Release(ctx context.Context, client *kube.Client, bare kube.Object, manager string, claim Claim) error {
	live, _ := bare.DeepCopyObject().(kube.Object)
	err := client.Get(ctx, live, bare.GetNamespace(), bare.GetName())
	if kube.IsNotFound(err, bare.GetName()) {
		return nil
	}
	if err != nil {
		return err
	}
	if !claim.Holds(live) {
		return &TakenError{Live: live}
	}
	bare.SetUID(live.GetUID())
	return client.Apply(ctx, bare, kube.ApplyOptions{Manager: manager})
}
