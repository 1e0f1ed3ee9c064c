package main

import (
	"fmt"
	"io"
	"math"
	"time"
)

// labels are the contenders' names as people know them.
var labels = map[string]string{
	"cofferdam":        "cofferdam",
	"cofferdam-podman": "cofferdam, podman",
	"docker-exec":      "docker exec",
	"podman-exec":      "podman exec",
	"docker-run":       "docker run",
	"podman-run":       "podman run",
	"langchain":        "LangChain's protocol",
	"docker-client":    "Docker's Go client",
	"testcontainers":   "testcontainers-go",
}

// The plot's measures, in pixels.
const (
	plotWidth  = 800
	plotLeft   = 170
	plotRight  = 90
	plotTop    = 64
	plotRow    = 34
	plotBottom = 40
)

// plot writes the times of commands as a picture whose axis is logarithmic.
func (r *record) plot(w io.Writer) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range r.lines {
		if l.task == "Command" || l.task == "First" {
			low, high = min(low, l.samples[0].value), max(high, l.samples[0].value)
		}
	}
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	x := func(t time.Duration) float64 {
		return plotLeft + (math.Log10(float64(t))-first)/(last-first)*(plotWidth-plotLeft-plotRight)
	}
	height := plotTop + plotRow*len(contenders) + plotBottom
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		plotWidth, height)
	fmt.Fprintln(w, `<title>How long a command takes, by cofferdam and by others</title>`)
	fmt.Fprintf(w, `<rect width="%d" height="%d" rx="6" fill="#ffffff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(w, `<text x="16" y="26" font-size="16" font-weight="bold" fill="#1f2937">Time of a command, on a logarithmic scale</text>`+"\n")
	legend := func(x int, fill, text string) {
		fmt.Fprintf(w, `<circle cx="%d" cy="45" r="5" fill="%s" stroke="#374151" stroke-width="1.5"/>`, x, fill)
		fmt.Fprintf(w, `<text x="%d" y="49.5" fill="#374151">%s</text>`+"\n", x+10, text)
	}
	legend(plotLeft, "#374151", "warm, with a line to the 95th percentile")
	legend(plotLeft+290, "#ffffff", "first, with the container's start")
	bottom := height - plotBottom
	for e := first; e <= last; e++ {
		t := time.Duration(math.Pow(10, e))
		fmt.Fprintf(w, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e5e7eb"/>`, x(t), plotTop, x(t), bottom)
		fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle" fill="#6b7280">%v</text>`+"\n", x(t), bottom+20, t)
	}
	for i, c := range contenders {
		y, color, weight := plotTop+plotRow*i+plotRow/2, "#6b7280", "normal"
		if c.as == "cofferdam" {
			color, weight = "#0b62c4", "bold"
		}
		fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end" font-weight="%s" fill="%s">%s</text>`,
			plotLeft-12, y+5, weight, color, labels[c.name])
		warm, cold := r.times("Command", c.name), r.times("First", c.name)
		fmt.Fprintf(w, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%[2]d" stroke="%[4]s" stroke-width="2.5"/>`,
			x(warm.median()), y, x(warm.percentile(95)), color)
		mark := func(t time.Duration, fill string, dy int) {
			fmt.Fprintf(w, `<circle cx="%.1f" cy="%d" r="5" fill="%s" stroke="%s" stroke-width="1.5"/>`, x(t), y, fill, color)
			fmt.Fprintf(w, `<text x="%.1f" y="%d" font-size="11" text-anchor="middle" fill="%s">%v</text>`,
				x(t), y+dy, color, figures(t))
		}
		mark(warm.median(), color, -8)
		// What is run for each command is warm at no time, and both marks are one.
		dy := -8
		if math.Abs(x(cold.median())-x(warm.median())) < 40 {
			dy = 17
		}
		mark(cold.median(), "#ffffff", dy)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, `</svg>`)
}

// figures returns a time with two figures.
func figures(t time.Duration) time.Duration {
	unit := time.Duration(math.Pow(10, math.Floor(math.Log10(float64(max(t, 1))))-1))
	return t.Round(max(unit, 1))
}
