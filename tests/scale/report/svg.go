package report

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Plot is one figure of some steps, over the size of the fleet.
type Plot struct {
	Title, Unit string
	// File is the name of the file that has it.
	File  string
	lines []line
}

type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// Plots are the plots of runs: each has a line for each step that at least one run has.
func Plots(runs []Run) []Plot {
	each := func(names ...string) []string { return names }
	plots := []struct {
		Plot
		steps []string
		y     func(Step) float64
	}{
		{Plot{Title: "hub's CPU for each unit of a step", Unit: "ms", File: "cpu.svg"},
			each("join", "works", "placements", "works-changed", "renewal"), Step.CPUPerUnit},
		{Plot{Title: "hub's anonymous memory after a step", Unit: "MB", File: "memory.svg"},
			each("rest", "placements", "relabel"), func(s Step) float64 { return s.MemoryAfterMB }},
		{Plot{Title: "time of nine in ten attempts", Unit: "s", File: "latency.svg"},
			each("placement", "placement-again", "placement-meanwhile", "rollout"),
			func(s Step) float64 { return s.Latency.P90 }},
		{Plot{Title: "restart after a crash until all is processed", Unit: "s", File: "restart.svg"},
			each("restart-kill", "restart-term"), func(s Step) float64 { return s.Latency.P90 }},
	}
	var all []Plot
	for _, p := range plots {
		for _, name := range p.steps {
			l := line{name: name}
			for _, run := range runs {
				if s, ok := run.step(name); ok && s.Missing == "" {
					l.points = append(l.points, point{float64(run.Clusters), p.y(s)})
				}
			}
			if len(l.points) > 0 {
				slices.SortStableFunc(l.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
				p.lines = append(p.lines, l)
			}
		}
		if len(p.lines) > 0 {
			all = append(all, p.Plot)
		}
	}
	return all
}

const (
	width, height                  = 720, 360
	left, right, top, bottom       = 70, 200, 40, 50
	plotWidth, plotHeight, ticksOf = width - left - right, height - top - bottom, 5
)

var colours = []string{"#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#a67c00"}

// SVG draws a plot, which begins at zero on both axes.
func (p Plot) SVG() string {
	var mostX, mostY float64
	for _, l := range p.lines {
		for _, at := range l.points {
			mostX, mostY = max(mostX, at.x), max(mostY, at.y)
		}
	}
	mostX, mostY = cmp.Or(mostX, 1), cmp.Or(1.1*mostY, 1)
	x := func(v float64) float64 { return left + plotWidth*v/mostX }
	y := func(v float64) float64 { return top + plotHeight*(1-v/mostY) }
	var b strings.Builder
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(left, top-16, "start", p.Title+", "+p.Unit)
	for i := range ticksOf + 1 {
		vx, vy := mostX*float64(i)/ticksOf, mostY*float64(i)/ticksOf
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%[3]g" stroke="#ddd"/>`+"\n", left, left+plotWidth, y(vy))
		text(left-6, y(vy)+4, "end", digits(vy))
		text(x(vx), height-bottom+18, "middle", count(int(vx)))
	}
	text(left+plotWidth/2, height-12, "middle", "clusters")
	for i, l := range p.lines {
		colour, points := colours[i%len(colours)], []string{}
		for _, at := range l.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(at.x), y(at.y)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(at.x), y(at.y), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
			strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/>`+"\n", width-right+16, top+20*i, colour)
		text(width-right+34, float64(top+20*i+10), "start", l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
