package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/ownership"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Nothing on the hub is taken over in silence. Each object that a resource
// writes carries the resource's mark, and the private part of the state knows it:
// so a resource tells its own object from one that somebody else made, or that
// another state has taken over.

// owned is one object of the hub as a resource wants it.
type owned struct {
	// write is the object, and what of it may be taken over without being asked.
	write ownership.Write
	// what names it: placement "default/p". id is its import ID.
	what, id string
	// discreet keeps its values out of messages.
	discreet bool
}

// own is an object that is compared by all that it says. adopt and force are the
// resource's attributes.
func own(object kube.Object, what, id string, adopt, force types.Bool) owned {
	return owned{what: what, id: id, write: ownership.Write{
		Object: object, Manager: fieldManager,
		Adopt: adopt.ValueBool(),
		Force: force.IsNull() || force.ValueBool(),
	}}
}

// adoptAttribute is on every resource that makes an object of the hub.
func adoptAttribute() schema.BoolAttribute {
	return schema.BoolAttribute{
		MarkdownDescription: "Whether to take over an object that exists on the hub and is not as the configuration says, or that another Terraform resource has taken over since. " +
			"What it says otherwise is then overwritten, and what another Terraform configuration has set of it is removed. " +
			"Left out or `false`, that is an error, which tells the difference and the owner; an object that is just as it would be made is taken over in any case. Importing it is the other way.",
		Optional: true,
	}
}

// reservedAnnotation tells why an annotation can't be set by configurations.
func reservedAnnotation(key string) string {
	if key == cluster.TerraformOwnerAnnotation {
		return "the provider marks its objects with it"
	}
	return ""
}

// withoutMark are annotations as people see them.
func withoutMark(annotations map[string]string) map[string]string {
	shown := map[string]string{}
	for key, value := range annotations {
		if reservedAnnotation(key) == "" {
			shown[key] = value
		}
	}
	return shown
}

// The private part of a resource's state, as the framework hands it in and takes
// it back.
type (
	privateReader interface {
		GetKey(context.Context, string) ([]byte, diag.Diagnostics)
	}
	privateWriter interface {
		SetKey(context.Context, string, []byte) diag.Diagnostics
	}
)

// claimKey is where the claim is in the private state.
const claimKey = "claim"

func claimOf(ctx context.Context, private privateReader, diags *diag.Diagnostics) ownership.Claim {
	text, problems := private.GetKey(ctx, claimKey)
	diags.Append(problems...)
	return ownership.ParseClaim(text)
}

func keepClaim(ctx context.Context, private privateWriter, claim ownership.Claim, diags *diag.Diagnostics) {
	text, err := claim.Encode()
	if err != nil {
		diags.AddError("Cannot note whose the object is", err.Error())
		return
	}
	diags.Append(private.SetKey(ctx, claimKey, text)...)
}

// create makes the object on the hub, and reports whether that went well.
func (r *hubResource) create(ctx context.Context, o owned, private privateWriter, diags *diag.Diagnostics) bool {
	client := r.hub.client(diags)
	if client == nil {
		return false
	}
	if err := o.create(ctx, client, private, diags); err != nil {
		addAPIError(diags, client, "create "+o.what, err)
		return false
	}
	return true
}

// create is hubResource.create for those who explain errors of their own.
func (o owned) create(ctx context.Context, client *kube.Client, private privateWriter, diags *diag.Diagnostics) error {
	claim, from, err := o.write.Create(ctx, client)
	if err != nil {
		return o.explained(client, err)
	}
	keepClaim(ctx, private, claim, diags)
	if from != "" {
		diags.AddWarning("An existing object was taken over from another Terraform resource",
			fmt.Sprintf("The hub had %s, marked by another Terraform resource. If that is still in a state, it will be told, and changes it no more: remove it there with terraform state rm. If its state is lost, all is well.", o.what))
	}
	return nil
}

// update writes the object again, and reports whether that went well.
func (r *hubResource) update(ctx context.Context, o owned, was privateReader, private privateWriter, diags *diag.Diagnostics) bool {
	client := r.hub.client(diags)
	if client == nil {
		return false
	}
	if err := o.update(ctx, client, was, private, diags); err != nil {
		addAPIError(diags, client, "update "+o.what, err)
		return false
	}
	return true
}

// update is hubResource.update for those who explain errors of their own.
func (o owned) update(ctx context.Context, client *kube.Client, was privateReader, private privateWriter, diags *diag.Diagnostics) error {
	claim, err := o.write.Update(ctx, client, claimOf(ctx, was, diags))
	if err != nil {
		return o.explained(client, err)
	}
	keepClaim(ctx, private, claim, diags)
	return nil
}

// recognize compares an object that was read with what the resource remembers of
// it. It warns when the object is another's by now.
func (r *hubResource) recognize(ctx context.Context, object kube.Object, what string, was privateReader, private privateWriter, diags *diag.Diagnostics) {
	claim := claimOf(ctx, was, diags)
	switch {
	case !claim.Holds(object):
		diags.AddWarning("Taken over by somebody else: "+what,
			fmt.Sprintf("On the hub %s it is another's by now: %s. This resource changes and deletes it no more, and an update fails. "+
				"%s",
				r.hub.client(diags).Host(), ownership.Describe(object, fieldManager, time.Now()), takenRemedy(object)))
	case claim.UID != object.GetUID():
		claim.UID = object.GetUID()
		keepClaim(ctx, private, claim, diags)
	}
}

// delete deletes an object that is still the resource's and waits until it is
// gone. Another's is left with a warning, which is no error. object gets what was
// seen last.
func (r *hubResource) delete(ctx context.Context, client *kube.Client, object kube.Object, namespace, name, what string, was privateReader, diags *diag.Diagnostics) error {
	err := ownership.DeleteAndWait(ctx, client, object, namespace, name, claimOf(ctx, was, diags))
	return left(client, what, err, diags)
}

// left turns the error that an object is another's into a warning.
func left(client *kube.Client, what string, err error, diags *diag.Diagnostics) error {
	var taken *ownership.TakenError
	if !errors.As(err, &taken) {
		return err
	}
	diags.AddWarning("Not deleted: "+what,
		fmt.Sprintf("The hub %s has it, but it is not this resource's any more: %s. It was left as it is, and only this state forgets it.",
			client.Host(), ownership.Describe(taken.Live, fieldManager, time.Now())))
	return nil
}

// takenRemedy is what to do about an object that is another's by now.
func takenRemedy(object kube.Object) string {
	if _, token := object.(*corev1.Secret); token {
		return "Remove the resource here (terraform state rm), and import the token again if it is to be managed here."
	}
	return "Remove the resource here (terraform state rm), or take the object back with adopt = true."
}

// ownedError is a refusal to take an object over, in words.
type ownedError struct {
	error
	summary, detail string
}

// Unwrap is the refusal itself.
func (e *ownedError) Unwrap() error { return e.error }

// explained puts a refusal into words; other errors stay as they are.
func (o owned) explained(client *kube.Client, err error) error {
	var (
		exists   *ownership.ExistsError
		deleting *ownership.DeletingError
		taken    *ownership.TakenError
		now      = time.Now()
	)
	switch {
	case errors.As(err, &exists):
		return &ownedError{err, "Exists already: " + o.what,
			fmt.Sprintf("%s\n\nNothing was changed. %s", o.exists(client, exists.Live, exists.Differences, now), o.ways())}
	case errors.As(err, &deleting):
		return &ownedError{err, "Still being deleted: " + o.what,
			fmt.Sprintf("The hub %s still has the object of this name that was there before, so it can't be created yet.\n%s\n\nApply again when it is gone.",
				client.Host(), describeDeletion(deleting.Live, now))}
	case errors.As(err, &taken):
		return &ownedError{err, "Taken over by somebody else: " + o.what,
			fmt.Sprintf("On the hub %s it is another's by now: %s.\n\nNothing was changed. %s",
				client.Host(), ownership.Describe(taken.Live, fieldManager, now), takenRemedy(taken.Live))}
	}
	return err
}

// shownDifferences is how many differences a message lists.
const shownDifferences = 8

// exists tells that the object is there, in what it differs, and whose it is.
func (o owned) exists(client *kube.Client, live kube.Object, differences []ownership.Difference, now time.Time) string {
	var lines []string
	for _, d := range differences {
		if len(lines) == shownDifferences {
			lines = append(lines, fmt.Sprintf("and %d more", len(differences)-shownDifferences))
			break
		}
		lines = append(lines, d.Text(!o.discreet))
	}
	differs := "it is not as this configuration says"
	if len(lines) > 0 {
		differs += ": " + strings.Join(lines, "; ")
	}
	return fmt.Sprintf("The hub %s has %s already, and %s. It was %s.", client.Host(), o.what, differs, ownership.Describe(live, fieldManager, now))
}

// ways are what can be done about an object that exists.
func (o owned) ways() string {
	return fmt.Sprintf("To manage it as it is, import it, with the resource's address that Terraform names here in place of ADDRESS: terraform import ADDRESS %s\n"+
		"To make it as this configuration says, set adopt = true. To leave it to its owner, choose another name.", o.id)
}
