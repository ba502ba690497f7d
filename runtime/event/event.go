// Package event makes events where no recorder can be used. A recorder counts equal
// events up by patches, which upstream's roles for agents do not allow, sends them
// later, and forgets to report what the server refused. Those of the hub about access
// and of agents about their cluster have to be written by the one who is asked, with a
// name that keeps equal ones apart or makes them one.
package event

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
)

// Source reports events.
type Source struct {
	// Controller and Instance are the names of the reporter.
	Controller, Instance string
	Clock                clock.PassiveClock
}

// What is what an event reports.
type What struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason and Action are single words.
	Reason, Action string
	// Note is a sentence; one that is too long for an event is cut.
	Note string
}

// New makes an event about an object, in the object's namespace. The caller names it:
// by a name of its own, by GenerateName, or by NameOnce.
func (s Source) New(about corev1.ObjectReference, what What) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: about.Namespace},
		EventTime:           metav1.NewMicroTime(s.Clock.Now()),
		ReportingController: s.Controller,
		ReportingInstance:   s.Instance,
		Type:                what.Type,
		Reason:              what.Reason,
		Action:              what.Action,
		Note:                text.Cut(what.Note, limits.EventNote),
		Regarding:           about,
	}
}

// NameOnce gives an event a name that equal ones about the same object have: there is
// one of them for as long as it lives.
func NameOnce(e *eventsv1.Event, prefix string) {
	sum := sha256.Sum256([]byte(e.Regarding.Name + "/" + e.Note))
	e.Name = prefix + hex.EncodeToString(sum[:10])
}
