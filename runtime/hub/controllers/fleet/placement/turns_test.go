package placement

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// However many placements a namespace has judged, and whatever they cost, one in
// another namespace waits for one slice at the most.
func TestNamespacesTakeTurns(t *testing.T) {
	turns := turns{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		turns.add(key("hostile", name))
	}
	for range 100 {
		next, _ := turns.next()
		turns.charge(next, slice, true)
	}
	turns.add(key("tenant", "p"))
	waited := 0
	for {
		next, ok := turns.next()
		if !ok {
			t.Fatal("nobody is next")
		}
		if next == key("tenant", "p") {
			break
		}
		if waited++; waited > 1 {
			t.Fatalf("it waited for %d slices of others", waited)
		}
		turns.charge(next, slice, true)
	}
	turns.charge(key("tenant", "p"), 100, false)
	// A namespace that had nothing to do saves up nothing.
	for range 10 {
		next, _ := turns.next()
		turns.charge(next, slice, true)
	}
	turns.add(key("tenant", "p"))
	got := 0
	for range 10 {
		next, _ := turns.next()
		if next.Namespace == "tenant" {
			got++
		}
		turns.charge(next, slice, true)
	}
	if got < 4 || got > 6 {
		t.Errorf("it got %d of 10 turns, want half of them", got)
	}
}

// In a namespace, a placement that costs little waits for one slice at the most
// of those that cost much.
func TestPlacementsTakeTurns(t *testing.T) {
	turns := turns{}
	for _, name := range []string{"a", "b", "c"} {
		turns.add(key("ns", name))
	}
	for range 30 {
		next, _ := turns.next()
		turns.charge(next, slice, true)
	}
	turns.add(key("ns", "z"))
	if next, _ := turns.next(); next != key("ns", "z") {
		t.Errorf("next is %s", next)
	}
	turns.charge(key("ns", "z"), 1, false)
	for _, name := range []string{"a", "b", "c"} {
		turns.charge(key("ns", name), 1, false)
	}
	if next, ok := turns.next(); ok {
		t.Errorf("next is %s, and nobody waits", next)
	}
	if len(turns) != 0 {
		t.Errorf("%d namespaces are remembered", len(turns))
	}
}
