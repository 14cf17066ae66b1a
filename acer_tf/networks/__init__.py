"""The Keras models: layers, torsos, discrete and continuous networks."""
