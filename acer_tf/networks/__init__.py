"""The Keras models: layers, torsos, discrete and continuous networks, and the average policy network."""
