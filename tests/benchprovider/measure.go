package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// phase is a step in the life of the objects.
type phase struct {
	name string
	// text is the value of the configuration's variable.
	text string
	args []string
}

func phases() []phase {
	return []phase{
		{name: "create", text: "one", args: []string{"apply", "-auto-approve"}},
		{name: "plan, no change", text: "one", args: []string{"plan", "-detailed-exitcode"}}, // a change is exit code 2
		{name: "update of all", text: "two", args: []string{"apply", "-auto-approve"}},
		{name: "destroy", text: "two", args: []string{"destroy", "-auto-approve"}},
	}
}

// result is what was measured of a workload, by phase.
type result struct {
	workload
	muster, noop [][]spent // phases, rounds
	requests     []requests
	// state is the size of the states in bytes.
	state, noopState int64
}

// measure has both providers go through the phases, in turns and with another one
// first in each round. Requests are counted in a round of their own: the proxy
// costs time.
func (w workload) measure(ctx context.Context, tf *terraform, p *proxy, rounds int) (result, error) {
	r := result{workload: w, muster: make([][]spent, len(phases())), noop: make([][]spent, len(phases()))}
	if err := r.count(ctx, tf, p); err != nil {
		return r, err
	}
	for round := range rounds {
		if err := r.time(ctx, tf, round%2 == 0); err != nil {
			return r, err
		}
	}
	return r, nil
}

// count runs the phases through the proxy.
func (r *result) count(ctx context.Context, tf *terraform, p *proxy) error {
	ws, err := tf.workspace(r.config("muster"), p.env()...)
	if err != nil {
		return err
	}
	for _, phase := range phases() {
		p.reset()
		if _, err := ws.run(ctx, phase.text, phase.args...); err != nil {
			return fmt.Errorf("%s of %s: %w", phase.name, r.what, err)
		}
		r.requests = append(r.requests, p.counted())
	}
	return nil
}

// time runs the phases with both providers.
func (r *result) time(ctx context.Context, tf *terraform, musterFirst bool) error {
	type runner struct {
		ws    *workspace
		times [][]spent
		state *int64
	}
	var runners []runner
	for _, provider := range []struct {
		name  string
		times [][]spent
		state *int64
	}{{"muster", r.muster, &r.state}, {"noop", r.noop, &r.noopState}} {
		ws, err := tf.workspace(r.config(provider.name))
		if err != nil {
			return err
		}
		runners = append(runners, runner{ws, provider.times, provider.state})
	}
	if !musterFirst {
		slices.Reverse(runners)
	}
	for i, phase := range phases() {
		for _, runner := range runners {
			took, err := runner.ws.run(ctx, phase.text, phase.args...)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", phase.name, r.what, err)
			}
			runner.times[i] = append(runner.times[i], took)
			if phase.name == "create" {
				if *runner.state, err = runner.ws.stateSize(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// median is the middle of what f says of the values.
func median[T any](values []T, f func(T) time.Duration) float64 {
	var sorted []time.Duration
	for _, value := range values {
		sorted = append(sorted, f(value))
	}
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle].Seconds()
	}
	return (sorted[middle-1] + sorted[middle]).Seconds() / 2
}

func wall(s spent) time.Duration { return s.wall }
func cpu(s spent) time.Duration  { return s.cpu }
func hub(s spent) time.Duration  { return s.hub }
