package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is what users have written, by names such as "work c1/w3", and so what the hub
// has to have. "" stands for an object that is not there.
type model map[string]*register

// register is what is known of one object: what was acknowledged last, and what may be
// there in its place because no answer came to a write. All writes are conditional on the
// version that they were made from, so that one that arrives late changes nothing that
// was acknowledged after it.
type register struct {
	acknowledged string
	possible     []possibility
}

type possibility struct {
	value string
	round int
}

// outcome is what is known of a write.
type outcome int

const (
	refused outcome = iota // it has changed nothing
	done                   // it is acknowledged
	unknown                // no answer has come
)

// late is for how many rounds a write may be under way whose answer was lost.
const late = 2

// clone is a copy.
func (m model) clone() model {
	all := maps.Clone(m)
	for name, r := range all {
		all[name] = &register{r.acknowledged, slices.Clone(r.possible)}
	}
	return all
}

// write notes what became of a write.
func (m model) write(round int, name, value string, became outcome) {
	r := m[name]
	if r == nil {
		r = &register{}
		m[name] = r
	}
	switch became {
	case done:
		r.acknowledged, r.possible = value, nil
	case unknown:
		r.possible = append(r.possible, possibility{value, round})
	}
}

// check says what is wrong with what the hub has.
func (m model) check(round int, read map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if m[name] == nil {
			return fmt.Errorf("%s is there, and nobody has written it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		r := m[name]
		if value := read[name]; value != r.acknowledged && !slices.ContainsFunc(r.possible, func(p possibility) bool {
			return p.value == value && p.round > round-late
		}) {
			return fmt.Errorf("%s is %q, but %q was acknowledged, and no answer came to %v",
				name, value, r.acknowledged, r.possible)
		}
	}
	return nil
}

// settle takes what the hub has, which was checked, as what was acknowledged.
func (m model) settle(round int, read map[string]string) {
	for name, r := range m {
		r.acknowledged = read[name]
		r.possible = slices.DeleteFunc(r.possible, func(p possibility) bool { return p.round <= round-late })
	}
}

// content is what a work puts into its cluster: names of config maps, and what they say.
type content map[string]string

// String is the content in one line.
func (c content) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		pairs = append(pairs, name+"="+c[name])
	}
	return strings.Join(pairs, " ")
}
